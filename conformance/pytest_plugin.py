"""Collects feature files as pytest items whose names are instance ids: `pytest -p conformance.pytest_plugin spec`.

Options: `--target` (one of the known targets, `interp` when left out) and `--tier`. A failure shows what `tilespec run`
shows. Unsupported instances are skipped with the reason; nothing else is.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conformance.adapters import TARGETS, TargetUnavailable, load
from conformance.errors import SpecError
from conformance.instances import Instance, collect
from conformance.loader import load_feature
from conformance.model import TIERS
from conformance.results import RED, Result
from conformance.runner import Session, collect_for, run_instance, selfcheck_results

SESSION = pytest.StashKey[Session]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tilespec")
    group.addoption("--target", default="interp", choices=list(TARGETS), help="the implementation to judge")
    group.addoption("--tier", default="pr", choices=list(TIERS), help="run instances up to this tier")


def session_of(config: pytest.Config) -> Session:
    """The one session of a pytest run; compilations are shared inside a file."""
    if SESSION not in config.stash:
        target = config.getoption("--target")
        try:
            config.stash[SESSION] = Session(target, load(target))
        except TargetUnavailable as e:
            raise pytest.UsageError(str(e)) from None
    return config.stash[SESSION]


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if file_path.suffix == ".yaml" and file_path.parent.parent.name == "features":
        return FeatureFile.from_parent(parent, path=file_path)
    return None


class FeatureFile(pytest.File):
    """One feature file; its items are the instances that apply to the target, and the self-check of its cases."""

    def collect(self) -> Iterator[pytest.Item]:
        try:
            feature = load_feature(self.path, self.path.parents[2])
        except SpecError as e:
            raise self.CollectError(e.render()) from None
        session = session_of(self.config)
        chosen = [
            i
            for i in collect_for(collect([feature], tier=self.config.getoption("--tier")), session.info)
            if i.kind != "snapshot"  # snapshots are compared by tests/test_stage_snapshots.py and by tilespec run
        ]
        for instance in chosen:
            yield InstanceItem.from_parent(self, name=instance.id, instance=instance)
        if any(i.kind == "oracle" for i in chosen):
            yield SelfCheckItem.from_parent(self, name=f"{feature.id}/selfcheck", chosen=chosen)

    def teardown(self) -> None:
        session_of(self.config).forget()


class NotConforming(Exception):
    """A result that is not green."""

    def __init__(self, result: Result) -> None:
        super().__init__(result.message)
        self.result = result


class _Item(pytest.Item):
    def judge(self, result: Result) -> None:
        if result.status == "unsupported":
            pytest.skip(result.message)
        if result.status in RED:
            raise NotConforming(result)

    def repr_failure(self, excinfo: Any, style: Any = None) -> Any:
        if not isinstance(excinfo.value, NotConforming):
            return super().repr_failure(excinfo, style)
        r = excinfo.value.result
        parts = [f"{r.file}:{r.line}: {r.status}: {r.i}", r.message, r.ir.get("diff", ""), r.repro]
        return "\n".join(p for p in parts if p)


class InstanceItem(_Item):
    """One instance on the target."""

    def __init__(self, *, instance: Instance, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.instance = instance
        self.add_marker(instance.kind)

    def runtest(self) -> None:
        self.judge(run_instance(session_of(self.config), self.instance))

    def reportinfo(self) -> tuple[Path, int, str]:
        mark = self.instance.check.mark
        return self.path, (mark.line - 1 if mark else 0), self.name


class SelfCheckItem(_Item):
    """That every case of the file, run in full, rejects wrong answers."""

    def __init__(self, *, chosen: list[Instance], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.chosen = chosen

    def runtest(self) -> None:
        for result in selfcheck_results(session_of(self.config), self.chosen):
            self.judge(result)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, 0, self.name


def pytest_configure(config: pytest.Config) -> None:
    for kind in ("oracle", "unpredictable", "negative", "rewrite", "ssa", "invariant", "budget"):
        config.addinivalue_line("markers", f"{kind}: an instance of this kind of a feature file")
