"""Report documents for tests: one with every status and hostile names, and one of any size."""

from __future__ import annotations

from typing import Any

from conformance.results import STATUSES, Result, totals

HOSTILE = """<script>alert('x')</script>"&amp;`|*_[a](b)#@team\x00\x1b]]>"""
STARTED = "2026-05-01T10:20:30+00:00"


def implementation(id: str, **fields: Any) -> dict[str, Any]:
    base = {"id": id, "version": "0.1.0", "profiles": ["core"], "runs": True, "smoke": "pass", "toolchain": "cuda-12.9"}
    return {**base, **fields}


def feature(id: str, clauses: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
    """A feature's entry; counts are filled in by `document`."""
    area = id.split(".")[0]
    base = {"id": id, "area": area, "title": f"Title of {id}", "since": "0.1.0", "status": "stable", "profile": "core"}
    return {**base, "file": f"spec/features/{id.replace('.', '/')}.yaml", "clauses": clauses, **fields}


def clause(id: str, *, covered: bool = True, level: str = "must", **fields: Any) -> dict[str, Any]:
    kind = "error" if id[0] == "E" else "semantics"
    base = {"id": id, "level": level, "kind": kind, "text": f"sentence {id}", "covered": covered, "cases": []}
    return {**base, "statuses": [], **fields}


def document(
    features: list[dict[str, Any]],
    results: list[Result],
    implementations: list[dict[str, Any]] | None = None,
    *,
    expected: int | None = None,
    started: str = STARTED,
    digest: str = "0123456789abcdef",
    **run: Any,
) -> dict[str, Any]:
    """A report of these results whose derived parts agree with them."""
    for f in features:
        mine = [r for r in results if r.i.startswith(f["id"] + "/")]
        f["by_status"] = {s: n for s in STATUSES if (n := sum(r.status == s for r in mine))}
        f["by_kind"] = {k: sum(r.kind == k for r in mine) for k in sorted({r.kind for r in mine})}
        for c in f["clauses"]:
            c["statuses"] = sorted({r.status for r in mine if c["id"] in r.clauses})
    base_run = {
        "started": started, "seconds": 12.5, "tier": "pr", "select": [], "shard": "", "seed_policy": "derived",
        "exit_code": 0, "host": {"python": "3.11.9", "system": "Linux x86_64", "device": "NVIDIA H200"},
    }  # fmt: skip
    return {
        "report": 1,
        "suite": {"version": "0.1.0", "commit": "a" * 40, "dirty": False, "spec_digest": digest},
        "run": {**base_run, **run},
        "implementations": implementations if implementations is not None else [implementation("interp")],
        "totals": totals(results, len(results) if expected is None else expected),
        "features": features,
        "results": [r.to_json() for r in results],
    }


def every_status() -> dict[str, Any]:
    """Two features, two implementations, every status and every kind, hostile text wherever text may stand."""
    a = feature(
        "memory.store",
        [clause("C1", cases=["memory.store/whole", "memory.store/tail"]), clause("C2", covered=False),
         clause("C3", level="may"), clause("E1", cases=["memory.store/bad"], text=HOSTILE)],
        title=HOSTILE, notes=HOSTILE, sources={HOSTILE: f"def k(x):\n    tl.store(x, '{HOSTILE}')\n"},
    )  # fmt: skip
    b = feature("con.void", [clause("C1")], status="draft", profile="ext.fp8")
    results = [
        Result("memory.store/whole:T=f32", "interp", "pass", "oracle", ("C1",), ms={"total": 3.5, "run": 1.0},
               numerics={"max_err_over_bound": 0.25, "output": "out"}),
        Result("memory.store/whole:T=f32", "cuda", "pass", "compile", message="compiled only"),
        Result("memory.store/whole:T=f16", "interp", "fail", "oracle", ("C1",), HOSTILE, "spec/x.yaml", 7,
               {"total": 1.0}, {"max_err_over_bound": "inf", "output": "out",
                                "worst": {"index": [3], "got": "nan", "ref": 1.0}}),
        Result("memory.store/whole:T=f64", "interp", "fail", "oracle", ("C1",), HOSTILE, "spec/x.yaml", 7),
        Result(f"memory.store/{HOSTILE}:T={HOSTILE}", "interp", "error", "oracle", ("C1",), HOSTILE),
        Result("memory.store/tail", "interp", "warn", "oracle", ("C1",), "nearly"),
        Result("memory.store/tail", "cuda", "skip", "oracle", (), "no GPU"),
        Result("memory.store/bad:B=3", "interp", "pass", "negative", ("E1",)),
        Result("memory.store/bad:B=3", "cuda", "crash", "negative", (), "ZeroDivisionError: <oops>"),
        Result("memory.store/tile:T=f32", "interp", "fail", "ssa", (), "the SSA differs",
               ir={"diff": "--- expected\n+++ found\n@@ -1 +1 @@\n-%0 = add <a>\n+%0 = sub <a>"}),
        Result("memory.store/cuda", "cuda", "pass", "snapshot", ir={"cuda": "00"}),
        Result("memory.store/budget:T=f32", "cuda", "fail", "budget", (), "regs 40 over 32",
               perf={"regs": 40, "smem": 0, "STG": 2, "arch": "sm_90a",
                     "limits": {"regs": 32, "smem": 0, "STG": [1, 8]}}),
        Result("memory.store/free", "interp", "xfail", "unpredictable", (), "known: https://example.org/1"),
        Result("memory.store/late", "interp", "timeout", "oracle", (), "10 s"),
        Result("memory.store/odd", "interp", "xpass", "invariant", ()),
        Result("memory.store/tail", "interp", "error", "selfcheck", (), "this case cannot fail: zeros pass"),
        Result("memory.store/late", "cuda", "fail", "agreement", (), "interp and cuda differ in the bits of out"),
        Result("con.void/a:X=1", "interp", "unsupported", "oracle", (), "ext.fp8 is not claimed"),
        Result("con.void/rule", "interp", "pass", "rewrite", ("C1",)),
    ]  # fmt: skip
    return document([a, b], results, [implementation("interp", toolchain=""), implementation(
        "cuda", runs=False, why_not="no GPU is visible", device=HOSTILE)])  # fmt: skip


def large(features: int = 40, instances: int = 10_000, *, red: int = 0, **fields: Any) -> dict[str, Any]:
    """A report with about this many results on two implementations; the first `red` of them fail."""
    entries, results = [], []
    per = instances // features // 2
    for n in range(features):
        id = f"{('memory', 'arith', 'reduce', 'control', 'math')[n % 5]}.feature_{n}"
        cases = [f"{id}/case_{c}" for c in range(5)]
        entries.append(feature(id, [clause(f"C{c}", cases=cases[c - 1 : c]) for c in range(1, 6)]))
        for k in range(per):
            instance = f"{cases[k % 5]}:T={('f32', 'f16', 'bf16')[k % 3]};N={k};BLOCK=128"
            for impl in ("interp", "cuda"):
                slack = (k * 37 % 101) / 120
                status = "fail" if len(results) < red else "pass"
                results.append(
                    Result(instance, impl, status, "oracle", (f"C{k % 5 + 1}",), ms={"total": 1.0 + k % 7},
                           numerics={"max_err_over_bound": slack}))  # fmt: skip
    return document(entries, results, [implementation("interp"), implementation("cuda")], **fields)
