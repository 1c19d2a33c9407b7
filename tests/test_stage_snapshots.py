"""Later stages of the reference compiler equal their blessed texts, which `tilespec bless` writes."""

from __future__ import annotations

from pathlib import Path

import pytest
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from conformance.adapters import Valid, load
from conformance.calls import bind
from conformance.instances import collect
from conformance.loader import load_suite, spec_root
from conformance.snapshots import snapshot_path, unused

FOLDER = spec_root() / "snapshots"
CHECKS = [i for i in collect(load_suite()) if i.kind == "snapshot"]


class StageText(SingleFileSnapshotExtension):
    """Reads and writes the same files as `tilespec bless`: the name of a snapshot is its path."""

    _write_mode = WriteMode.TEXT
    file_extension = ""

    @classmethod
    def dirname(cls, *, test_location):
        return str(FOLDER)

    @classmethod
    def discovery_dirname(cls, *, test_location):
        return str(FOLDER)

    @classmethod
    def get_snapshot_name(cls, *, test_location, index=0):
        return str(index)

    @classmethod
    def get_location(cls, *, test_location, index):
        return str(FOLDER / str(index))

    def is_snapshot_location(self, *, location):
        return Path(location).is_relative_to(FOLDER)


@pytest.fixture(scope="module")
def cuda():
    return load("cuda")


@pytest.mark.parametrize("instance", CHECKS, ids=lambda i: i.id)
def test_stage(instance, cuda, snapshot):
    call = bind(instance.program, instance.params, shapes=False)
    answer = cuda.compile(call.request((instance.check.stage,), instance.check.arch))
    assert isinstance(answer, Valid), answer
    name = snapshot_path(instance).as_posix()
    assert answer.texts[instance.check.stage] == snapshot(name=name, extension_class=StageText)


def test_no_snapshot_is_left_over():
    used = {snapshot_path(i) for i in CHECKS}
    assert [p.name for p in unused(FOLDER, used)] == []


def test_names_differ_without_regard_to_case_and_fit_every_file_system():
    names = [snapshot_path(i).as_posix() for i in CHECKS]
    assert len({n.lower() for n in names}) == len(names)
    assert not [n for n in names if set(n) & set('<>:"|?*\\ ')]
