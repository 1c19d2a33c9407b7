"""An honest implementation of three kernels in NumPy, so that the harness is tested without the reference compiler."""

from __future__ import annotations

import numpy as np

from conformance.adapters import Info, Ran, Rejected, Transformed, Valid


class Honest:
    """Knows its kernels by name; implements `conformance.adapters.Adapter`."""

    claims = Info(
        name="honest",
        version="1",
        stages=("tile",),
        phases=("type", "launch"),
        passes=False,
    )

    def info(self):
        return self.claims

    def compile(self, request):
        constexprs = dict(request.constexprs)
        extent = constexprs.get("BLOCK", constexprs.get("N"))
        if "no_such" in request.source:
            return Rejected("type", "call.unknown", "there is no such function")
        if extent & (extent - 1):
            return self.reject_extent(request)
        texts = {"tile": self.tile(request, extent)} if "tile" in request.emit else {}
        return Valid(handle=(request.entry, constexprs, dict(request.signature)), texts=texts)

    def reject_extent(self, request):
        lines = request.source.splitlines()
        line = next(i for i, text in enumerate(lines, 1) if "tl.arange(0, BLOCK)" in text)
        col = lines[line - 1].index("tl.arange(0, BLOCK)")
        message = "the extent of arange must be a power of two"
        return Rejected("type", "memory.copy#E1", message, (line, col, line, col + len("tl.arange(0, BLOCK)")))

    def tile(self, request, extent):
        return (
            f"func @add(x: ptr<f32>, y: ptr<f32>, out: ptr<f32>, BLOCK={extent}) {{\n"
            f"  %0 = arange {{start=0, end={extent}}} : vector<{extent} x i32>\n"
            f"  %1 = addptr out, %0 : vector<{extent} x ptr<f32>>\n}}\n"
        )

    def run(self, compiled, grid, arguments):
        if any(g < 1 for g in grid):
            return Rejected("launch", "memory.copy#E2", "a grid extent must be positive")
        entry, constexprs, _ = compiled.handle
        values = {a.name: a.value for a in arguments}
        getattr(self, entry)(values, constexprs)
        return Ran()

    def copy(self, values, constexprs):
        n = values["n"]
        values["out"][:n] = values["x"][:n]

    def add(self, values, constexprs):
        out = values["out"]
        with np.errstate(all="ignore"):
            out[:] = self.rounded_sum(values["x"], values["y"], out.dtype)

    def rounded_sum(self, x, y, dtype):
        return x + y if dtype.kind == "f" else (x.astype(np.float32) + y.astype(np.float32)).astype(dtype)

    def row_sum(self, values, constexprs):
        with np.errstate(all="ignore"):
            values["out"][:] = values["x"].astype(np.float32).sum(axis=1, dtype=np.float32)

    def transform(self, text, passes):
        return Transformed(text)
