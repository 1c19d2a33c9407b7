"""The registry of differences: each names a case that the suite has."""

from pathlib import Path

import pytest
from ruamel.yaml import YAML

from conformance import fuzzing
from conformance.loader import load_suite, spec_root

REGISTRY = YAML(typ="safe").load(Path(fuzzing.__file__).with_name("differences.yaml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def cases():
    return {f"{f.id}/{c.id}" for f in load_suite(spec_root()) for c in f.cases}


@pytest.mark.parametrize("row", REGISTRY, ids=lambda row: row["case"])
def test_every_difference_is_a_case(row, cases):
    assert row["case"] in cases
    assert row["kind"] in ("rejected", "crash", "values", "memory", "text")
    assert set(row) == {"what", "kind", "found", "case"} and set(row["found"]) == {"seed", "program"}


def test_no_case_is_named_twice():
    named = [row["case"] for row in REGISTRY]
    assert len(named) == len(set(named))
