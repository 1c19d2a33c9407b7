"""Environment flags: read when asked, typed, refused clearly, and all in the table."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from refcompiler import config
from refcompiler.errors import LaunchError

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("text, value", [("1", True), ("true", True), ("OFF", False), ("0", False), ("", False)])
def test_a_switch(monkeypatch, text, value):
    monkeypatch.setenv("TILESPEC_REQUIRE_GPU", text)
    assert config.REQUIRE_GPU() is value


def test_defaults_and_changes_are_seen(monkeypatch, tmp_path):
    monkeypatch.delenv("TILESPEC_CACHE_DIR", raising=False)
    assert config.CACHE_DIR() is None and config.cache_dir().name == "tilespec"
    monkeypatch.setenv("TILESPEC_CACHE_DIR", str(tmp_path))
    assert config.cache_dir() == tmp_path
    monkeypatch.setenv("TILESPEC_CACHE_DIR", "~/x")
    assert config.cache_dir() == Path.home() / "x"


@pytest.mark.parametrize(
    "name, text", [("TILESPEC_REQUIRE_GPU", "maybe"), ("TILESPEC_BACKEND", "metal"), ("TILESPEC_CACHE_MEGABYTES", "-1")]
)
def test_a_bad_value_names_the_variable_and_what_it_may_be(monkeypatch, name, text):
    monkeypatch.setenv(name, text)
    (flag,) = [flag for flag in config.FLAGS if flag.name == name]
    with pytest.raises(LaunchError) as caught:
        flag()
    assert caught.value.id == "config.value"
    assert name in str(caught.value) and repr(text) in str(caught.value) and flag.expects in str(caught.value)


def test_every_flag_of_the_module_is_in_the_table():
    flags = {value for value in vars(config).values() if isinstance(value, config.Flag)}
    assert flags == set(config.FLAGS)
    assert all(f"`{flag.name}`" in config.markdown_table() for flag in flags)


def test_every_variable_named_in_the_sources_is_in_the_table():
    named = set()
    for package in ("refcompiler", "conformance"):
        for path in (ROOT / package).rglob("*.py"):
            named |= set(re.findall(r"\bTILESPEC_[A-Z_]+\b", path.read_text()))
    assert named <= {flag.name for flag in config.FLAGS}
