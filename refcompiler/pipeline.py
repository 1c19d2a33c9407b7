"""From tile IR to CUDA C++ or MLIR. Read top to bottom: this file is the compiler's table of contents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from refcompiler import config
from refcompiler.dialects.simt.tensor_maps import check_tensor_maps
from refcompiler.emitters import cuda, mlir
from refcompiler.errors import LaunchError
from refcompiler.ir import Func, Pass, PassManager
from refcompiler.ir.verifier import check_target
from refcompiler.passes.allocate_shared import allocate_shared
from refcompiler.passes.assign_layouts import assign_layouts
from refcompiler.passes.canonicalize import canonicalize
from refcompiler.passes.copy_ahead import copy_ahead
from refcompiler.passes.cse import cse
from refcompiler.passes.dce import dce
from refcompiler.passes.decide_comparisons import decide_comparisons
from refcompiler.passes.delay_shared_loads import delay_shared_loads
from refcompiler.passes.divide_over_ctas import divide_over_ctas
from refcompiler.passes.drop_box_axes import drop_box_axes
from refcompiler.passes.expand_descriptors import expand_descriptors
from refcompiler.passes.expand_float8 import expand_float8
from refcompiler.passes.flush_exp2 import flush_exp2
from refcompiler.passes.form_boxes import form_boxes
from refcompiler.passes.form_fma import form_fma
from refcompiler.passes.hold_in_shared import hold_in_shared
from refcompiler.passes.insert_barriers import insert_barriers
from refcompiler.passes.licm import licm
from refcompiler.passes.lower_to_simt import lower_to_simt
from refcompiler.passes.pad_extents import pad_extents
from refcompiler.passes.rotate_products import rotate_products
from refcompiler.passes.share_addresses import share_addresses
from refcompiler.passes.skip_unselected import skip_unselected
from refcompiler.passes.specialize_warps import specialize_warps
from refcompiler.passes.sum_products import sum_products
from refcompiler.passes.unwrap_indices import unwrap_indices
from refcompiler.remarks import Remark, recording
from refcompiler.target import LEAST_SHARED_BYTES

_AHEAD = ("ring", "stages", "bulk_store")  # what passes put into shared memory to have it there in time
_PARTS = 8  # of shared memory, of which they do without one more until the kernel fits


@dataclass(frozen=True)
class Options:
    """What a launch may choose: warps per CTA, pipeline stages, CTAs of a cluster that share a program, contraction to
    fma, exp2 without subnormal results, checks of ``assert``, the edition of the language, and how many registers a
    thread may have (None: as many as the compilers like)."""

    num_warps: int = 4
    num_stages: int = 3
    num_ctas: int = 1
    enable_fp_fusion: bool = True
    enable_reflect_ftz: bool = False
    debug: bool = False
    profile: str = "core"
    fetch_boxes: bool = True  # False: nothing is read ahead; for arrays that overlap, or that no tensor map describes
    maxnreg: int | None = None


@dataclass(frozen=True)
class Context:
    """What every pass may ask: the options, and the target where one is chosen; ``remarks``, where somebody wants
    them, receives what passes did and left; ``spared_bytes`` of shared memory are not for what passes have ahead; with
    ``waits_at_once`` no product is on its way when the iteration that began it ends."""

    options: Options = field(default_factory=Options)
    target: Any = None
    remarks: list[Remark] | None = None
    spared_bytes: int = 0
    waits_at_once: bool = False

    @property
    def num_warps(self) -> int:
        return self.options.num_warps

    @property
    def shared_room(self) -> int:
        """The bytes of shared memory in which passes may have things ahead, beside what they know of exchanges."""
        return (self.target.shared_bytes_per_block if self.target else LEAST_SHARED_BYTES) - self.spared_bytes

    def sparing(self, func: Func) -> Context | None:
        """What to compile in when there was no room for ``func``, laid out; None where it has nothing ahead."""
        if not any(op.name in _AHEAD for op in func.walk()):
            return None
        return replace(self, spared_bytes=self.spared_bytes + (self.shared_room + self.spared_bytes) // _PARTS)


TILE = (
    Pass("decide_comparisons", decide_comparisons, "masks that exclude nothing would cost a predicate on each access"),
    Pass("canonicalize", canonicalize, "later passes match fewer shapes"),
    Pass("cse", cse, "unrolled loops and helpers repeat address arithmetic"),
    Pass("drop_box_axes", drop_box_axes, "a box of one of several matrices feeds a dot with nothing in between"),
    Pass("licm", licm, "loops recompute what does not change"),
    Pass("form_fma", form_fma, "one rounding for every target, decided here and by no C++ compiler"),
    Pass("flush_exp2", flush_exp2, "one instruction for each exp2, where the launch does without subnormal results"),
    Pass("dce", dce, "no layout is wasted on a value that nobody uses"),
)

BOXES = (
    Pass("unwrap_indices", unwrap_indices, "indices wrapped by % hide boxes"),
    Pass("form_boxes", form_boxes, "the copy engine of the target moves boxes, which addresses of elements hide"),
    Pass("cse", cse, "accesses of one array share its descriptor"),
    Pass("rotate_products", rotate_products, "tensor cores get a product while they do another"),
    Pass("specialize_warps", specialize_warps, "boxes are fetched ahead only while they are known to be boxes"),
)


def fetch_boxes(func: Func, context: Context) -> Func | None:
    """The function after ``BOXES``, where that has warps fetch boxes; else after the last of them alone, for a box that
    nothing copies as such has longer addresses and more masks than the accesses that it was made of."""
    tried, done = func.clone(), None
    said: list[Remark] = []
    for step in _chosen(BOXES):
        done = step.run(tried, recording(context, said))
        tried = done or tried
    if done is None and specialize_warps in (step.run for step in _chosen(BOXES)):
        said, tried_said = [], said
        done = specialize_warps(func, recording(context, said))
        if done is None:  # what was done is undone, what was left has its reasons
            said = [remark for remark in tried_said if not remark.applied]
    if context.remarks is not None:
        context.remarks.extend(said)
    return done


LAID_OUT = (
    Pass("fetch_boxes", fetch_boxes, "boxes are fetched ahead only while they are known to be boxes"),
    Pass("expand_descriptors", expand_descriptors, "boxes become accesses that are distributed like any other"),
    Pass("pad_extents", pad_extents, "all that follows distributes powers of two; what runs here has any extents"),
    Pass("divide_over_ctas", divide_over_ctas, "a cluster holds blocks that are too large for the memory of one CTA"),
    Pass("assign_layouts", assign_layouts, "every block gets a layout here; no layout is invented later"),
    Pass("cse", cse, "blocks rematerialised in several layouts share what is equal"),
    Pass("dce", dce, "what was rematerialised leaves its original without uses"),
    Pass("skip_unselected", skip_unselected, "which lanes exchange what is known by the layouts"),
    Pass("copy_ahead", copy_ahead, "rounds of a loop wait for shared memory only, and conversions are known by now"),
    Pass("hold_in_shared", hold_in_shared, "what all rounds of a loop read takes no registers from what they compute"),
    Pass("dce", dce, "addresses that were computed for loads are computed ahead of them now"),
)

SIMT = (
    Pass("lower_to_simt", lower_to_simt, "the only place where blocks become registers of threads"),
    Pass("expand_float8", expand_float8, "targets without these conversions compute them; all later passes see how"),
    Pass("canonicalize", canonicalize, "addresses of size-1 registers fold to scalars"),
    Pass("sum_products", sum_products, "sums of products are seen only in the registers of threads"),
    Pass("share_addresses", share_addresses, "accesses at constant distances need one address"),
    Pass("cse", cse, "every lowered op repeats thread-index arithmetic"),
    Pass("licm", licm, "address arithmetic of the lowering does not change in loops"),
    Pass("dce", dce, "the emitter prints what it is given"),
    Pass("delay_shared_loads", delay_shared_loads, "exchanges before one use share their barriers"),
    Pass("allocate_shared", allocate_shared, "byte offsets are final from here on"),
    Pass("insert_barriers", insert_barriers, "hazards are between byte ranges"),
)

# "a before b" with the reason; checked when this module is imported.
MUST_PRECEDE = (
    ("decide_comparisons", "canonicalize", "a decided mask leaves accesses that canonicalize to unmasked ones"),
    ("canonicalize", "cse", "cse compares operands by identity and wants one form of each"),
    ("form_fma", "dce", "a contracted product is left without uses"),
    ("unwrap_indices", "form_boxes", "a box has a mask where its array ends"),
    ("form_boxes", "specialize_warps", "what is fetched ahead are boxes"),
    ("fetch_boxes", "expand_descriptors", "what is a box is not seen any more in pointers and masks"),
    ("form_boxes", "expand_descriptors", "boxes that nothing copies as such become accesses of elements again"),
    ("rotate_products", "specialize_warps", "which products are computed together decides when slots are free"),
    ("specialize_warps", "expand_descriptors", "what is a box is not seen any more in pointers and masks"),
    ("expand_descriptors", "pad_extents", "a box of any extents becomes blocks of any extents"),
    ("pad_extents", "assign_layouts", "a layout is a map over bits, so every extent is a power of two"),
    ("pad_extents", "divide_over_ctas", "a power of two of elements has equal parts"),
    ("divide_over_ctas", "assign_layouts", "threads of a CTA hold its part"),
    ("assign_layouts", "skip_unselected", "a warp asks for what its lanes hold"),
    ("assign_layouts", "copy_ahead", "what is copied is known by the conversions of it"),
    ("copy_ahead", "hold_in_shared", "what is copied ahead goes first where shared memory is short"),
    ("assign_layouts", "lower_to_simt", "a lowering reads the layout"),
    ("expand_float8", "canonicalize", "what the expansion of a literal comes to folds"),
    ("delay_shared_loads", "allocate_shared", "buffers that wait for each other have bytes of their own"),
    ("dce", "allocate_shared", "a dead exchange would hold its buffer"),
    ("allocate_shared", "insert_barriers", "two buffers conflict only where their bytes overlap"),
)


def optimize(func: Func, context: Context | None = None, observer: Callable[[str, Func], None] | None = None) -> Func:
    """Tile IR, optimised; the function given stays as it is."""
    return _run("tile_opt", TILE, func.clone(), context or Context(), observer)


def lay_out(func: Func, context: Context, observer: Callable[[str, Func], None] | None = None) -> Func:
    """Optimised tile IR with a layout on every block; the function given stays as it is."""
    return _run("laid_out", LAID_OUT, func.clone(), context, observer)


def lower(func: Func, context: Context, observer: Callable[[str, Func], None] | None = None) -> Func:
    """SIMT IR of a laid-out function for ``context.target``; the function given stays as it is."""
    return _run("simt", SIMT, func.clone(), context, observer)


def emit(func: Func, backend: str = "cuda", target: Any = None) -> str:
    """The text of a SIMT function in the language of ``backend``.

    Raises CompileError (target.instruction) for an op that ``target``, where one is given, has no instruction for.
    """
    check_tensor_maps(func)
    if target is not None:
        check_target(func, target)
    return EMITTERS[backend].emit(func)


EMITTERS: dict[str, Any] = {"cuda": cuda, "mlir": mlir}


def _run(stage: str, passes: tuple[Pass, ...], func: Func, context: Context, observer) -> Func:
    """The function at ``stage``; TILESPEC_DUMP receives what each pass made of it."""
    dump = config.DUMP()
    folder = dump and dump / func.name / stage
    manager = PassManager(_chosen(passes), context, observer, folder, config.cache_dir() / "reproducers")
    return manager.run(func)


# What TILESPEC_WITHOUT_PASSES may name: without them code is as right as with them.
ONLY_FOR_SPEED = frozenset(
    "cse licm decide_comparisons unwrap_indices form_boxes rotate_products specialize_warps divide_over_ctas copy_ahead"
    " hold_in_shared skip_unselected delay_shared_loads".split()
)


def _chosen(passes: tuple[Pass, ...]) -> tuple[Pass, ...]:
    """The passes but those that the environment leaves out."""
    without = config.WITHOUT_PASSES()
    if unknown := set(without) - ONLY_FOR_SPEED:
        raise LaunchError(
            "config.value",
            f"{config.WITHOUT_PASSES.name} names {min(unknown)}, which is no pass that may be left out",
            notes=[f"those are {', '.join(sorted(ONLY_FOR_SPEED))}"],
        )
    return tuple(step for step in passes if step.name not in without)


def _check_order(passes: tuple[Pass, ...]) -> None:
    names = [p.name for p in passes]
    for first, second, reason in MUST_PRECEDE:
        if first in names and second in names and names.index(first) > names.index(second):
            raise ValueError(f"pass {first} must precede {second}: {reason}")


for _passes in (TILE, BOXES, LAID_OUT, SIMT):
    _check_order(_passes)
