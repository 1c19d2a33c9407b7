"""Parsed feature files in the cache folder: the same documents, the same errors, and nothing kept that is stale."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance import loader, parsed, yaml_text
from conformance.errors import SpecError

FEATURES = sorted((loader.spec_root() / "features").glob("*/*.yaml"))


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TILESPEC_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def feature_file(tmp_path: Path, text: str) -> tuple[Path, Path]:
    path = tmp_path / "spec" / "features" / FEATURES[0].parent.name / FEATURES[0].name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path, tmp_path / "spec"


@pytest.mark.parametrize("path", FEATURES[:: max(1, len(FEATURES) // 6)], ids=lambda p: p.stem)
def test_a_kept_document_equals_the_parsed_one(path, monkeypatch):
    text = path.read_text(encoding="utf-8")
    first = parsed.read("f.yaml", text)
    monkeypatch.setattr(yaml_text, "read", lambda *_: pytest.fail("parsed again"))
    again = parsed.read("g.yaml", text)
    assert again.file == "g.yaml" and again.data == first.data and again.lines == first.lines
    for table in ("values", "keys", "blocks"):
        assert getattr(again, table).marks == getattr(first, table).marks
    assert again.values[("clauses", 0)] == first.values[("clauses", 0)] and ("no", "such") not in again.keys


def test_a_feature_is_checked_once_and_again_after_a_change(tmp_path, monkeypatch):
    text = FEATURES[0].read_text(encoding="utf-8")
    path, root = feature_file(tmp_path, text)
    checks = []
    monkeypatch.setattr(loader, "check_feature", lambda feature, _: checks.append(feature.id))
    first = loader.load_feature(path, root)
    assert loader.load_feature(path, root) == first and len(checks) == 1
    feature_file(tmp_path, text + "# a comment\n")
    assert loader.load_feature(path, root).cases == first.cases and len(checks) == 2


def test_other_rules_check_again(tmp_path, monkeypatch):
    path, root = feature_file(tmp_path, FEATURES[0].read_text(encoding="utf-8"))
    loader.load_feature(path, root)
    checks = []
    monkeypatch.setattr(loader, "check_feature", lambda feature, _: checks.append(feature.id))
    loader.load_feature(path, root)
    assert not checks
    monkeypatch.setattr(parsed, "_rules", lambda schema: "another version of the harness")
    loader.load_feature(path, root)
    assert len(checks) == 1


def test_mistakes_are_reported_every_time_and_a_misplaced_copy_too(tmp_path):
    text = FEATURES[0].read_text(encoding="utf-8")
    path, root = feature_file(tmp_path, text.replace("title:", "titel:", 1))
    for _ in range(2):
        with pytest.raises(SpecError) as caught:
            loader.load_feature(path, root)
        assert caught.value.id == "spec.unknown_key" and caught.value.line_text.startswith("titel:")
    path, root = feature_file(tmp_path, text)
    loader.load_feature(path, root)
    moved = path.with_name("elsewhere.yaml")
    moved.write_text(text, encoding="utf-8")
    with pytest.raises(SpecError) as caught:
        loader.load_feature(moved, root)
    assert caught.value.id == "spec.id"


def test_damaged_entries_and_a_folder_that_cannot_be_written(tmp_path, folder, monkeypatch):
    text = FEATURES[0].read_text(encoding="utf-8")
    path, root = feature_file(tmp_path, text)
    whole = loader.load_feature(path, root)
    monkeypatch.setattr("refcompiler.cache._shared", {})  # as a new process
    for entry in folder.rglob("*.artifact"):
        entry.write_bytes(entry.read_bytes()[:-3])
    assert loader.load_feature(path, root) == whole
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TILESPEC_CACHE_DIR", str(tmp_path / "file" / "cache"))
    with pytest.warns(RuntimeWarning, match="cannot be used"):
        assert loader.load_feature(path, root) == whole
