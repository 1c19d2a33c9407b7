"""Targets: lookup by name, alias and device, and limits that must agree with each other."""

import pytest

from refcompiler.errors import CompileError, LaunchError
from refcompiler.target import ALIASES, TARGETS, target, target_for_device


def test_the_four_architectures_are_known_by_name():
    assert list(TARGETS) == ["sm_80", "sm_89", "sm_90a", "sm_100a"]
    assert all(target(name) is TARGETS[name] for name in TARGETS)


@pytest.mark.parametrize(("alias", "name"), sorted(ALIASES.items()))
def test_an_alias_names_its_target(alias, name):
    assert target(alias) is TARGETS[name]


@pytest.mark.parametrize("name", ["sm_75", "sm90", "", "SM_90A", "gfx942"])
def test_an_unknown_name_lists_the_known_ones(name):
    with pytest.raises(CompileError) as caught:
        target(name)
    assert repr(name) in str(caught.value)
    assert all(known in str(caught.value) for known in TARGETS)


@pytest.mark.parametrize(
    ("capability", "name"),
    [((8, 0), "sm_80"), ((8, 6), "sm_80"), ((8, 9), "sm_89"), ((9, 0), "sm_90a"), ((10, 0), "sm_100a")],
)
def test_a_device_gets_the_newest_target_it_can_run(capability, name):
    assert target_for_device(capability).name == name


@pytest.mark.parametrize("capability", [(7, 5), (10, 3), (12, 0)])
def test_a_device_without_a_target_is_named(capability):
    with pytest.raises(LaunchError, match=rf"{capability[0]}\.{capability[1]}"):
        target_for_device(capability)


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_limits_agree_with_each_other(name):
    known = target(name)
    assert known.shared_bytes_static < known.shared_bytes_per_block == known.shared_bytes_per_sm - 1024
    assert known.max_threads_per_block <= known.max_threads_per_sm
    assert known.max_warps_per_block * known.warp_size == known.max_threads_per_block
    assert known.has_wgmma == (known.capability == (9, 0)), "wgmma exists on 9.0a only"
    assert known.has_tma == known.has_clusters == (known.capability >= (9, 0))
