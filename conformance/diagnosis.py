"""`tilespec doctor`: what this machine has, and which targets it can serve, with the reason for each that it cannot."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from typing import Any

from conformance import gpu
from conformance.adapters import TARGETS, TargetUnavailable, load


def document() -> dict[str, Any]:
    """Machine, GPU, compilers and targets."""
    targets: dict[str, Any] = {}
    for name, target in TARGETS.items():
        entry: dict[str, Any] = {"title": target.title}
        try:
            info = load(name).info()
            entry |= {"available": True, "runs": info.runs, "toolchain": info.toolchain, "why_not": info.why_not}
        except TargetUnavailable as e:
            entry |= {"available": False, "runs": False, "why_not": str(e), "needs": target.needs}
        targets[name] = entry
    return {"python": platform.python_version(), "gpu": _gpu(), "compilers": _compilers(), "targets": targets}


def _gpu() -> str:
    try:
        found = gpu.visible_gpu()
    except gpu.GpuUnusable as e:
        return f"unusable: {e}"
    return str(found) if found else "none visible"


def _compilers() -> dict[str, str]:
    from conformance.adapters.reference import environment

    try:
        return environment()
    except ImportError as e:
        return {"missing": str(e)}


def text(found: Mapping[str, Any]) -> str:
    """The document for people."""
    lines = [f"python     {found['python']}", f"gpu        {found['gpu']}"]
    lines += [f"{name:<10} {version or 'not installed'}" for name, version in found["compilers"].items()]
    lines.append("")
    for name, t in found["targets"].items():
        if not t["available"]:
            state = f"left out: {t['why_not']}; needs {t['needs']}"
        elif t["runs"]:
            state = "runs"
        else:
            state = f"compiles only: {t['why_not']}"
        lines.append(f"{name:<10} {state}   ({t['title']})")
    return "\n".join(lines)
