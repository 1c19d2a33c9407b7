"""Warps with roles of their own, which meet at named barriers: what warp specialization lowers to."""

from __future__ import annotations

from refcompiler.dialects.scf import Structured
from refcompiler.dialects.simt.registers import SIMT
from refcompiler.ir.core import Op
from refcompiler.ir.opdef import attr

MAX_THREADS, NAMED_BARRIERS, WARP = 1024, 15, 32


class Roles(Structured, name="roles"):
    """Each range of warps runs its own region: the first ``warps[0]`` warps the first one, and so on; all the rest
    run the last one. Regions have neither arguments nor results.

    Only named barriers bring warps of several roles together.  Spec: exec.roles
    """

    warps = attr(tuple)
    starts = False

    def ranges(self, warps: int) -> list[tuple[int, int]]:
        """The first warp of each region, and the one after its last, where the CTA has ``warps``."""
        bounds = [0]
        for count in self.warps:
            bounds.append(min(warps, bounds[-1] + count))
        return list(zip(bounds, [*bounds[1:], warps], strict=True))

    def verify(self, require) -> None:
        fits = all(isinstance(n, int) and n > 0 for n in self.warps) and len(self.regions) == len(self.warps) + 1
        require(
            fits,
            "exec.roles#E3",
            lambda: f"{(n := len(self.regions))} regions need {n - 1} positive counts of warps, got {self.warps}",
            "warps",
        )
        inside = {op.name for region in self.regions for op in region.walk()}
        require("roles" not in inside, "exec.roles#E3", "a role has no roles inside")
        require("barrier" not in inside, "exec.roles#E3", "a role has no barrier of the whole CTA: use named_barrier")


class NamedBarrier(Op, name="named_barrier", effects={"barrier"}, levels=SIMT):
    """``threads`` threads of whole warps arrive at barrier ``id`` of the CTA; what they wrote before is visible to them
    after (PTX bar.sync id, threads). Barrier 0 is that of the whole CTA.  Spec: exec.roles
    """

    id = attr(int)
    threads = attr(int)

    def verify(self, require) -> None:
        known = 0 < self.id <= NAMED_BARRIERS
        require(known, "exec.roles#E2", lambda: f"a named barrier is 1 to {NAMED_BARRIERS}, got {self.id}", "id")
        whole = 0 < self.threads <= MAX_THREADS and self.threads % WARP == 0
        require(whole, "exec.roles#E2", lambda: f"threads of whole warps meet, got {self.threads}", "threads")
