"""Where the harness keeps what it could make again: bytes by key, in the reference compiler's artifact cache."""

from __future__ import annotations

from refcompiler.cache import shared_cache


def load(key: str) -> bytes | None:
    """What was saved under ``key``, in this process or an earlier one; None where there is nothing whole."""
    return shared_cache().get(key)


def save(key: str, data: bytes) -> None:
    """Keep ``data`` under ``key``, a hexadecimal digest; a folder that cannot be written gives one warning."""
    shared_cache().put(key, data)
