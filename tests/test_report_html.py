"""The static pages: well formed, linked, escaped, with the numbers of the report, small, and always the same."""

from __future__ import annotations

import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

import pytest
from report_samples import HOSTILE, document, every_status, feature, implementation, large

from conformance import report
from conformance.report import pages
from conformance.report.summary import Summary, visible
from conformance.results import RED, Result

VOID = {"meta", "link", "input", "br", "hr", "img"}


class Page(HTMLParser):
    """A parsed page: ids, links, text by element, and what is not well formed."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.broken: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str, str]] = []
        self.rows: list[dict] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()
        self.broken += [f"never closed: {t}" for t in self.open]

    def handle_starttag(self, tag, attrs):
        self.tags[tag] += 1
        names = [n for n, _ in attrs]
        if len(set(names)) != len(names):
            self.broken.append(f"attribute twice on {tag} at {self.getpos()}")
        for name, value in attrs:
            self.attributes.append((tag, name, value or ""))
        given = dict(attrs)
        self.ids += [given["id"]] if "id" in given else []
        self.links += [given[k] for k in ("href", "src") if k in given]
        if tag == "tr":
            self.rows.append({"data": given, "cells": []})
        if tag in ("td", "th") and self.rows:
            self.rows[-1]["cells"].append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open[-1] != tag:
            self.broken.append(f"</{tag}> closes {self.open[-1:]} at {self.getpos()}")
        else:
            self.open.pop()

    def handle_data(self, data):
        self.text.append(data)
        if self.rows and {"td", "th"} & set(self.open):
            self.rows[-1]["cells"][-1] += data


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("report")
    assert report.write(every_status(), out) == out / "index.html"
    return out


@pytest.fixture(scope="module")
def parsed(folder) -> dict[str, Page]:
    return {
        p.relative_to(folder).as_posix(): Page(p.read_text(encoding="utf-8")) for p in sorted(folder.rglob("*.html"))
    }


def test_every_page_is_there(parsed):
    top = {"index.html", "clauses.html", "failures.html", "slack.html", "slowest.html", "history.html"}
    assert top | {"features/memory.store.html"} < set(parsed)


def test_pages_are_well_formed(parsed):
    for name, page in parsed.items():
        assert not page.broken, (name, page.broken[:5])
        assert page.tags["h1"] == 1 and page.tags["main"] == 1, name
        assert page.tags["script"] == 1, f"{name}: text became markup"
        twice = [i for i, n in Counter(page.ids).items() if n > 1]
        assert not twice, (name, twice)


def test_links_lead_somewhere(folder, parsed):
    for name, page in parsed.items():
        for link in page.links:
            assert "//" not in link and not link.startswith(("/", "data:", "javascript:")), (name, link)
            path, _, fragment = link.partition("#")
            target = (folder / name).parent / unquote(path) if path else folder / name
            assert target.is_file(), (name, link)
            if fragment:
                key = target.resolve().relative_to(folder.resolve()).as_posix()
                assert unquote(fragment) in parsed[key].ids, (name, link)


def test_a_clause_is_an_anchor(parsed):
    assert {"C1", "C2", "C3", "E1"} <= set(parsed["features/memory.store.html"].ids)


def test_nothing_runs_but_our_script(parsed):
    for name, page in parsed.items():
        for tag, attribute, _ in page.attributes:
            assert not attribute.startswith("on") and attribute != "style", (name, tag, attribute)


def test_hostile_text_is_shown_as_it_is(parsed):
    text = "".join(parsed["features/memory.store.html"].text)
    shown = visible(HOSTILE)
    assert "\u2400" in shown and text.count(shown) >= 6


def test_lamps_say_what_the_report_says(parsed):
    document = every_status()
    rows = {row["cells"][0].split()[0]: row["cells"] for row in parsed["index.html"].rows if "data-area" in row["data"]}
    assert set(rows) == {f["id"] for f in document["features"]}
    kinds = {
        "ir": {"ssa", "invariant", "snapshot", "rewrite"},
        "oracle": {"oracle", "unpredictable", "selfcheck", "agreement", "compile"},
        "budgets": {"budget"}, "negatives": {"negative"},
    }  # fmt: skip
    for id, cells in rows.items():
        must = [c for f in document["features"] if f["id"] == id for c in f["clauses"] if c["level"] == "must"]
        assert cells[1] == f"{sum(c['covered'] for c in must)}/{len(must)}"
        column = 2
        for impl in ("interp", "cuda"):
            for mine in kinds.values():
                found = [
                    r for r in document["results"]
                    if r["i"].split("/")[0] == id and r["impl"] == impl and r["kind"] in mine
                ]  # fmt: skip
                red = sum(r["status"] in RED for r in found)
                shown = re.findall(r"\d+", cells[column])
                assert shown == ([str(red)] if red else []) + ([str(len(found))] if found else []), (id, impl, column)
                column += 1


def test_totals_are_those_of_the_report(parsed):
    document = every_status()
    text = " ".join("".join(parsed["index.html"].text).split())
    s = Summary(document)
    assert f"{s.red} of {len(document['results'])} instances red" in text
    for impl in ("interp", "cuda"):
        cells = next(r["cells"] for r in parsed["index.html"].rows if r["cells"][:1] == [impl])
        counts = Counter(r["status"] for r in document["results"] if r["impl"] == impl)
        for status, n in counts.items():
            assert f"{n} {status}" in cells[7], (impl, status)


def test_each_instance_is_listed_once_with_its_result(parsed):
    document = every_status()
    rows = [r["cells"] for r in parsed["features/memory.store.html"].rows if set(r["data"]) & {"data-state"}]
    listed = Counter(word for cells in rows for cell in cells[1:] for word in cell.split()[1:2])
    mine = [r for r in document["results"] if r["i"].startswith("memory.store/")]
    assert listed == Counter("compiled" if r["kind"] == "compile" else r["status"] for r in mine)


def test_a_red_result_shows_message_place_and_command(parsed):
    text = "".join(parsed["features/memory.store.html"].text)
    assert "tilespec run 'memory.store/whole:T=f16' --target interp" in text
    assert "spec/x.yaml:7" in text and "-%0 = add <a>" in text and "The same of 1 more instances" in text


def test_a_clause_is_red_when_its_case_crashed_on_one_implementation():
    clause = next(c for c in Summary(every_status()).clauses if c.id == "E1")
    assert clause.counts["cuda"] == {"crash": 1} and clause.state == "crash"


def test_equal_reports_give_equal_bytes(folder, tmp_path):
    report.write(every_status(), tmp_path)
    for path in folder.rglob("*"):
        if path.is_file():
            assert path.read_bytes() == (tmp_path / path.relative_to(folder)).read_bytes(), path.name


@pytest.mark.parametrize(
    "id", ["con.x", "aux", "a.B", "../../etc/passwd", "a/b", "", "x" * 500, "nul", "a:b*c?", "ü.é", "com1.add", "a."]
)
def test_file_names_suit_every_system(id):
    path = PurePosixPath(pages.feature_file(id))
    assert path.parent == PurePosixPath("features") and len(path.name) < 130
    assert re.fullmatch(r"[a-z0-9._-]+\.html", path.name)
    assert path.name.split(".")[0] not in pages.RESERVED


def test_file_names_differ_when_ids_do():
    ids = ["a.b", "a.B", "A.b", "a/b", "a:b", "con.b", "feature-con.b"]
    assert len({pages.feature_file(i) for i in ids}) == len(ids)
    assert pages.feature_file("memory.store") == "features/memory.store.html"


def test_ten_thousand_instances_give_pages_that_load(tmp_path):
    one = large(features=2, instances=10_000)
    report.write(one, tmp_path)
    sizes = {p.name: p.stat().st_size for p in tmp_path.rglob("*.html")}
    assert max(sizes.values()) < 3_000_000, sizes
    assert sizes["index.html"] < 100_000


def test_instances_beyond_the_limit_are_counted_and_red_ones_shown(tmp_path, monkeypatch):
    monkeypatch.setattr("conformance.report.feature_page.MOST_INSTANCES", 3)
    results = [Result(f"a.b/c:N={n}", "interp", "fail" if n == 9 else "pass", "oracle") for n in range(10)]
    report.write(document([feature("a.b", [])], results), tmp_path)
    text = (tmp_path / "features" / "a.b.html").read_text(encoding="utf-8")
    assert "N=9" in text and "N=8" not in text and "6 more results, none red" in text


def luminance(color: str) -> float:
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_text_stands_out_from_its_background(folder, theme):
    """WCAG 2 AA asks for a contrast of 4.5."""
    css = (folder / "assets" / "style.css").read_text(encoding="utf-8")
    colors = {name: pair[theme] for name, *pair in re.findall(r"--([\w-]+): light-dark\((#\w+), (#\w+)\)", css)}
    looks = ("good", "fair", "bad", "info", "mute")
    pairs = [(text, bg) for text in ("text", "dim", "link", *looks) for bg in ("bg", "panel")]
    for text, bg in [*pairs, *((name, f"{name}-bg") for name in looks), ("text", "good-bg"), ("text", "bad-bg")]:
        high, low = sorted((luminance(colors[text]), luminance(colors[bg])), reverse=True)
        assert (high + 0.05) / (low + 0.05) >= 4.5, (text, bg)


def test_an_empty_report_says_that_it_is_void(tmp_path):
    report.write(document([], [], [], expected=5), tmp_path)
    page = Page((tmp_path / "index.html").read_text(encoding="utf-8"))
    text = "".join(page.text)
    assert not page.broken and "This run does not count" in text and "not one result" in text and "incomplete" in text


def test_stage_texts_stand_beside_the_source(tmp_path):
    texts = [
        {"stage": "tile", "program": "k", "at": "T=f32", "text": "func @k() {<tile>}"},
        {"stage": "cuda", "program": "k", "at": "T=f32", "text": "__global__ void k() {}"},
        {"stage": "tile", "program": "k", "at": "T=f16", "text": "func @k16()"},
    ]
    f = feature("a.b", [], sources={"k": "def k(): pass"}, texts=texts)
    report.write(document([f], [Result("a.b/c", "interp", "pass", "oracle")]), tmp_path)
    text = (tmp_path / "features" / "a.b.html").read_text(encoding="utf-8")
    groups = re.findall(r'<div class="beside">(.*?)</div>', text, flags=re.S)
    assert [g.count("<figure>") for g in groups] == [3, 1]
    assert "func @k() {&lt;tile&gt;}" in groups[0] and "__global__ void k() {}" in groups[0]


def test_demanded_errors_are_listed(tmp_path):
    demand = {"phase": "type", "id": "a.b#E1", "at": "x + <y>", "control": "fine"}
    f = feature("a.b", [], negatives={"bad": demand})
    results = [Result("a.b/fine", "interp", "pass", "oracle"), Result("a.b/bad", "interp", "pass", "negative")]
    report.write(document([f], results, [implementation("interp")]), tmp_path)
    page = Page((tmp_path / "features" / "a.b.html").read_text(encoding="utf-8"))
    assert ["bad", "–", "type", "a.b#E1", "x + <y>", "fine"] in [r["cells"][:6] for r in page.rows]
