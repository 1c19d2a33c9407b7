"""Where the harness keeps what it could make again: bytes by key, in the reference compiler's artifact cache.

The compiler is imported at the first call: a process that is to test a changed compiler loads this module before.
"""

from __future__ import annotations


def load(key: str) -> bytes | None:
    """What was saved under ``key``, in this process or an earlier one; None where there is nothing whole."""
    from refcompiler.cache import shared_cache

    return shared_cache().get(key)


def contents() -> tuple[str, int, int]:
    """The folder, and how many entries and bytes it holds, compiled kernels included."""
    from refcompiler.cache import shared_cache

    cache = shared_cache()
    return (str(cache.root), *cache.size())


def clear() -> None:
    """Remove all of them."""
    from refcompiler.cache import shared_cache

    shared_cache().clear()


def save(key: str, data: bytes) -> None:
    """Keep ``data`` under ``key``, a hexadecimal digest; a folder that cannot be written gives one warning."""
    from refcompiler.cache import shared_cache

    shared_cache().put(key, data)
