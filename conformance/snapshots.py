"""Where blessed texts of later stages lie: one file a check, with names that every file system takes."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conformance.instances import Instance

SUFFIX = {"cuda": "cu", "mlir": "mlir", "ptx": "ptx", "sass": "sass"}


def snapshot_path(instance: Instance) -> PurePosixPath:
    """`<area>/<name>/<check>-<params>.<suffix>`, relative to the snapshot folder."""
    check = instance.check
    params = "-".join(f"{k}_{v}" for k, v in check.at.items())
    stem = re.sub(r"[^A-Za-z0-9_.-]", "_", "-".join(p for p in (check.id, check.arch, params) if p))
    return PurePosixPath(instance.feature.area, instance.feature.name, f"{stem}.{SUFFIX.get(check.stage, 'txt')}")


def unused(folder: Path, used: set[PurePosixPath]) -> list[Path]:
    """Snapshot files that no check of the suite reads: left over, to be deleted."""
    return [
        p
        for p in sorted(folder.rglob("*"))
        if p.is_file() and PurePosixPath(p.relative_to(folder).as_posix()) not in used
    ]
