"""Profiles: the language itself, and extensions of it that a kernel asks for by name."""

from __future__ import annotations

from typing import Any

from refcompiler.errors import LaunchError

CORE = "core"
ANY_EXTENT = "ext.any_extent"  # extents of blocks need not be powers of two
PROFILES = (CORE, ANY_EXTENT)


def known_profile(name: Any) -> str:
    """``name``, if it is a profile. Raises LaunchError."""
    if name not in PROFILES:
        raise LaunchError("program.arguments#E2", f"profile is one of {', '.join(map(repr, PROFILES))}, found {name!r}")
    return name


def extent_fits(extent: int, profile: str) -> bool:
    """Whether a block may have an axis of that positive extent."""
    return profile == ANY_EXTENT or not extent & (extent - 1)


ADVICE = f"profile={ANY_EXTENT!r} takes any extent"
