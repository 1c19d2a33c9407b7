"""The suite as data: frozen dataclasses for features, clauses, programs, cases, checks and expectations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from conformance.errors import Mark

Scalar = str | int | float | bool
# Axes of parameters: names that belong together, and the rows of their values.
Axes = tuple[tuple[tuple[str, ...], tuple[tuple[Scalar, ...], ...]], ...]

PHASES_OF_A_RUN = ("launch", "run", "simulate")
TIERS = ("smoke", "pr", "gpu", "nightly")
# What a kernel is measured against: a device-to-device copy of as many bytes, torch, torch.compile, cuBLAS and cuDNN by
# way of torch, upstream Triton, and our own kernel by way of MLIR.
PEERS = ("copy", "torch", "compile", "cublas", "cudnn", "triton", "mlir")
# How `arguments:` of a case may bend one argument of the call.
MODIFIERS = (
    "missing", "none", "list", "readonly", "view", "transposed", "field", "array", "bits", "dtype", "value",
    "positional", "named",
)  # fmt: skip


@dataclass(frozen=True)
class Clause:
    """One sentence of the law. `id` is C<n> (promise), E<n> (required error) or N<n> (no promise)."""

    id: str
    level: str
    kind: str
    text: str
    why: str = ""
    since: str = ""
    mark: Mark | None = None


@dataclass(frozen=True)
class Argument:
    """One parameter of a kernel's signature.

    Arrays have `shape` (one expression an extent) and a `role`: in, out or inout. Scalars have `value`, an expression
    (the parameter of the same name when left out). `dtype` may contain `{T}`; `hint` is 16 (divisible) or 1 (is one).
    """

    name: str
    dtype: str
    shape: tuple[str, ...] | None = None
    role: str = "in"
    value: str = ""
    hint: int | None = None

    @property
    def is_array(self) -> bool:
        return self.shape is not None


@dataclass(frozen=True)
class Value:
    """Expected contents of one output as expressions: the value, which elements are written (all when empty), and of
    which any value is right (none when empty)."""

    value: str
    written: str = ""
    unspecified: str = ""


@dataclass(frozen=True)
class Oracle:
    """Where expected values come from: a function of the package `oracles` (`ref`), or expressions for each output.

    With `ref`: `inputs` maps the oracle's input names to expressions over the kernel's arrays (left out: by name),
    `params` adds parameters (expressions; text that is a dtype stays text), `outputs` maps kernel outputs to the
    oracle's output names (left out: the same name, or `out` when the kernel has one output).
    """

    ref: str = ""
    inputs: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True)
class Numerics:
    """How an output is compared with the oracle: exact, ulp, dot or derived, and the limits of the mode.

    `ulp` and `absolute` are a number, an expression, or a mapping from output dtype to either; `depth` and
    `magnitude` are expressions (roundings one term can meet; sum of absolute terms when the oracle gives none);
    `accuracy` is the class of exp and its kin in mode derived.
    """

    mode: str
    ulp: Any = None
    absolute: Any = 0.0
    acc: str = ""
    magnitude: str = ""
    depth: str = ""
    truncating: bool = False
    accuracy: str = "fast"
    signed_zero: str = ""
    subnormal: str = "keep"
    repeat_bitwise: bool = False
    why: str = ""
    outputs: Mapping[str, Numerics] = field(default_factory=dict)

    def of(self, output: str) -> Numerics:
        """The block that applies to one output array."""
        return self.outputs.get(output, self)


@dataclass(frozen=True)
class Program:
    """A kernel, in Triton's surface language or as SIMT text, with what is needed to call it."""

    name: str
    entry: str
    source: str
    arguments: tuple[Argument, ...]
    grid: tuple[str, ...]
    grid_form: str = "tuple"
    profile: str = "core"
    constexprs: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    oracle: Oracle | None = None
    numerics: Numerics | None = None

    @property
    def outputs(self) -> tuple[str, ...]:
        return tuple(a.name for a in self.arguments if a.is_array and a.role != "in")


@dataclass(frozen=True)
class Expect:
    """What must happen: valid, error (phase, clause id, source text under the span, message part), or unpredictable."""

    outcome: str = "valid"
    phase: str = ""
    id: str = ""
    at: str = ""
    message: str = ""
    outputs: str = "untouched"


@dataclass(frozen=True)
class Transform:
    """Tile text before and after named passes; without `after` the text itself is judged (parse and verify)."""

    passes: tuple[str, ...]
    before: str
    after: str = ""


@dataclass(frozen=True)
class Hypothesis:
    """Derandomised drawing: number of examples, and a strategy for each drawn parameter."""

    max_examples: int
    draw: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """One test idea; its parameters expand to instances."""

    id: str
    covers: tuple[str, ...]
    tier: str = "pr"
    program: Program | None = None
    params: Axes = ()
    where: str = ""
    inputs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    arguments: Mapping[str, str] = field(default_factory=dict)
    hypothesis: Hypothesis | None = None
    oracle: Oracle | None = None
    numerics: Numerics | None = None
    transform: Transform | None = None
    requires: tuple[str, ...] = ()
    control: str = ""
    expect: Expect = Expect()
    mark: Mark | None = None


@dataclass(frozen=True)
class IrCheck:
    """What one stage's text must be: the law (`text`), invariants, or a snapshot of the reference compiler."""

    id: str
    stage: str
    program: Program
    at: Mapping[str, Scalar]
    arch: str = ""
    tier: str = "pr"
    text: str = ""
    snapshot: bool = False
    has: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    count: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    covers: tuple[str, ...] = ()
    mark: Mark | None = None


@dataclass(frozen=True)
class Budget:
    """Limits of one kernel: static ones (`max` and `mix`: resources and the instruction mix of compiled code for `arch`
    by `toolchain`), or `counts` of one launch at `at` with `inputs`: each between two expressions."""

    id: str
    program: Program
    at: Mapping[str, Scalar]
    arch: str = ""
    toolchain: str = ""
    max: Mapping[str, int] = field(default_factory=dict)
    mix: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    counts: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    inputs: Mapping[str, str] = field(default_factory=dict)
    tier: str = "pr"
    covers: tuple[str, ...] = ()
    mark: Mark | None = None


@dataclass(frozen=True)
class Benchmark:
    """What `tilespec bench` measures of one kernel: a function on arrays, the sizes, the work, and the peers.

    `entry` is `module:function`, called with the arguments by name. `params` are the axes of the lines, `quick` those
    of a short run. `bytes` and `flops` are expressions for the work of one call, `options` further keywords of it.
    `notes` say what limits it where a floor is missed. `sample` says how many places of an extent, named by a
    parameter, are verified. `floors`, `aims` and `means` map a peer to a ratio of speeds: of each line, and of the
    geometric mean of all lines.
    """

    id: str
    entry: str
    operation: str
    arguments: tuple[Argument, ...]
    params: Axes
    bytes: str
    sample: Mapping[str, int]
    oracle: Oracle
    numerics: Numerics
    quick: Axes = ()
    flops: str = ""
    where: str = ""
    transposed: Mapping[str, str] = field(default_factory=dict)
    inputs: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    peers: tuple[str, ...] = ()
    floors: Mapping[str, float] = field(default_factory=dict)
    aims: Mapping[str, float] = field(default_factory=dict)
    means: Mapping[str, float] = field(default_factory=dict)
    notes: str = ""
    mark: Mark | None = None

    @property
    def every_peer(self) -> tuple[str, ...]:
        """Peers that are named or have a floor, an aim or a mean, in the order of `PEERS`."""
        named = {*self.peers, *self.floors, *self.aims, *self.means}
        return tuple(p for p in PEERS if p in named)


@dataclass(frozen=True)
class Feature:
    """One feature file."""

    id: str
    title: str
    status: str
    since: str
    file: str
    clauses: tuple[Clause, ...]
    programs: Mapping[str, Program]
    cases: tuple[Case, ...]
    ir: tuple[IrCheck, ...] = ()
    budgets: tuple[Budget, ...] = ()
    bench: tuple[Benchmark, ...] = ()
    until: str = ""
    profile: str = "core"
    requires: tuple[str, ...] = ()
    kills: tuple[str, ...] = ()
    notes: str = ""

    @property
    def area(self) -> str:
        return self.id.split(".")[0]

    @property
    def name(self) -> str:
        return self.id.split(".")[1]

    def clause(self, id: str) -> Clause:
        return next(c for c in self.clauses if c.id == id)

    def case(self, id: str) -> Case:
        return next(c for c in self.cases if c.id == id)
