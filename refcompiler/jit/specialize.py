"""Arguments to types and hints: what a launch is compiled for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from refcompiler.errors import LaunchError
from refcompiler.frontend.kernel_source import EMPTY, KernelSource, Parameter
from refcompiler.frontend.signature import parse_signature, parse_type
from refcompiler.frontend.types import block_type, constexpr, dtype, pointer_type
from refcompiler.ir.types import BOOL, DTYPES, F32, I32, I64, U64, DType, PointerType
from refcompiler.runtime.arrays import ArrayInfo, describe, dtype_name, is_array

_CLAUSES = {"launch.dtype": "program.arguments#E8", "launch.strides": "program.arguments#E9"}
# What a launch may say beside the kernel's own arguments; the pipeline has them.
OPTIONS = (
    "num_warps",
    "num_stages",
    "num_ctas",
    "enable_fp_fusion",
    "enable_reflect_ftz",
    "debug",
    "profile",
    "maxnreg",
)
# What a launch tells of an integer, the first that divides it: 16 as upstream does; rows of 8, 24, 40 ... elements of
# 16 bits begin at multiples of 16 bytes as well.
DIVISORS = (16, 8)
_STATIC = (constexpr, dtype, pointer_type, block_type)


@dataclass(frozen=True)
class ShapeDtype:
    """An array that ``kernel.warmup`` compiles for and that needs no memory: its shape, its dtype (of NumPy, torch or
    the language, or a name), and whether its address is a multiple of 16."""

    shape: tuple[int, ...]
    dtype: Any
    aligned: bool = True


class Argument:
    """One bound argument: its parameter, value, IR type (None for compile-time values), hint and array description;
    ``plain`` says that type and hint follow from the value alone."""

    __slots__ = ("hint", "info", "parameter", "plain", "type", "value")

    def __init__(self, parameter: Parameter, value: Any):
        self.parameter, self.value = parameter, value
        self.type: DType | PointerType | None = None
        self.hint: int | None = None
        self.info: ArrayInfo | None = None
        self.plain = True


def bind(source: KernelSource, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
    """The value of every parameter, in order. Raises LaunchError naming what is missing or unexpected."""
    parameters = source.parameters
    positional = [p for p in parameters if p.kind is not p.kind.KEYWORD_ONLY]
    for p in positional:
        if p.kind is p.kind.VAR_POSITIONAL:
            raise LaunchError(
                "program.arguments#E1", f"kernel {source.name} takes *{p.name}; a kernel names its parameters"
            )
    if len(args) > len(positional):
        raise LaunchError(
            "program.arguments#E1",
            f"kernel {source.name} takes {len(positional)} positional arguments "
            f"({', '.join(p.name for p in positional)}), found {len(args)}",
        )
    given = dict(zip((p.name for p in positional), args, strict=False))
    for name, value in kwargs.items():
        if name in given:
            raise LaunchError("program.arguments#E1", f"kernel {source.name} got argument `{name}` twice")
        given[name] = value
    if unknown := [name for name in given if name not in {p.name for p in parameters}]:
        raise unexpected(source, unknown[0])  # before what is missing: a misspelt name is both
    values = []
    for p in parameters:
        value = given.pop(p.name, p.default)
        if value is EMPTY:
            raise LaunchError("program.arguments#E1", f"kernel {source.name} is missing argument `{p.name}`")
        values.append(value)
    return values


def unexpected(source: KernelSource, name: str) -> LaunchError:
    import difflib

    known = [p.name for p in source.parameters]
    close = difflib.get_close_matches(name, [*known, *OPTIONS], 1)
    advice = f"; did you mean `{close[0]}`?" if close else f"; it has {', '.join(known)}"
    return LaunchError("program.arguments#E1", f"kernel {source.name} has no parameter or option `{name}`{advice}")


def specialize(
    source: KernelSource,
    values: Sequence[Any],
    plain: frozenset[str],
    unaligned: frozenset[str],
    described: bool = False,
) -> list[Argument]:
    """Types and hints of the arguments; ``plain`` parameters get no hints, ``unaligned`` none of alignment. Where
    ``described``, arguments may be descriptions: a ShapeDtype, a dtype for an aligned array, a text such as "i32:16".
    """
    arguments = []
    for parameter, value in zip(source.parameters, values, strict=True):
        argument = Argument(parameter, value)
        if described and not parameter.constexpr and _is_description(value):
            _take_description(argument)
        elif not parameter.constexpr and not is_static(value):
            _classify(source, argument)
            argument.plain = parameter.name not in plain | unaligned and _forced_type(parameter.type) is None
            if parameter.name in plain or (parameter.name in unaligned and argument.hint != 1):
                argument.hint = None
        arguments.append(argument)
    return arguments


def is_static(value: Any) -> bool:
    """Whether an argument is compile-time whatever its parameter says: None, dtypes, kernels, constexpr."""
    if value is None or isinstance(value, _STATIC):
        return True
    return hasattr(value, "__kernel_source__")


def _is_description(value: Any) -> bool:
    if isinstance(value, ShapeDtype | str | np.dtype):
        return True
    kind = type(value)
    of_torch = kind.__name__ == "dtype" and kind.__module__ == "torch"
    return of_torch or (isinstance(value, type) and issubclass(value, np.generic))


def _take_description(argument: Argument) -> None:
    """Type and hint of a described argument."""
    value, parameter = argument.value, argument.parameter
    if isinstance(value, str):
        types, hints = parse_signature({parameter.name: value})
        argument.type, argument.hint = types[parameter.name], hints.get(parameter.name)
    else:
        of = value.dtype if isinstance(value, ShapeDtype) else value
        try:
            name = of.ir.name if isinstance(of, dtype) else dtype_name(of)
        except LaunchError as error:
            raise LaunchError(
                "program.arguments#E8", f"argument `{parameter.name}`: {error.message}", notes=error.notes
            ) from None
        argument.type = PointerType(DTYPES[name], parameter.const)
        argument.hint = 16 if not isinstance(value, ShapeDtype) or value.aligned else None
    argument.type = _forced_type(parameter.type) or argument.type


def _classify(source: KernelSource, argument: Argument) -> None:
    value, parameter = argument.value, argument.parameter
    forced = _forced_type(parameter.type)
    if isinstance(value, bool | np.bool_):
        argument.type = forced or BOOL
    elif isinstance(value, int | np.integer):
        argument.type = forced or _integer_type(source, parameter, int(value))
        if isinstance(argument.type, DType) and argument.type.is_int:
            argument.hint = integer_hint(int(value))
    elif isinstance(value, float | np.floating):
        argument.type = forced or F32
    elif is_array(value):
        try:
            info = describe(value)
        except LaunchError as error:
            id = _CLAUSES.get(error.id, error.id)
            raise LaunchError(id, f"argument `{parameter.name}`: {error.message}", notes=error.notes) from None
        argument.info = info
        argument.type = forced or PointerType(DTYPES[info.dtype], parameter.const)
        argument.hint = 16 if info.divisible_by_16 else None
    else:
        raise LaunchError(
            "program.arguments#E2",
            f"argument `{parameter.name}` of kernel {source.name} is of type {type(value).__name__}; expected an array "
            "or a number (annotate the parameter tl.constexpr for compile-time values)",
        )
    if isinstance(argument.type, PointerType) != (argument.info is not None):
        raise LaunchError(
            "program.arguments#E2", f"argument `{parameter.name}` of kernel {source.name} must be {argument.type}"
        )


def integer_hint(value: int) -> int | None:
    """What a launch tells the compiler of an integer: that it is 1, or a divisor of it; None: nothing."""
    return 1 if value == 1 else next((divisor for divisor in DIVISORS if value % divisor == 0), None)


def _forced_type(annotation: str | None) -> DType | PointerType | None:
    """The type that an annotation such as `tl.float64` or "*fp32" asks for; other annotations mean nothing."""
    if annotation is None:
        return None
    try:
        return parse_type(annotation)
    except LaunchError:
        return None


def _integer_type(source: KernelSource, parameter: Parameter, value: int) -> DType:
    found = next((d for d in (I32, I64, U64) if d.min_int <= value <= d.max_int), None)
    if found is None:
        raise LaunchError(
            "program.arguments#E3",
            f"argument `{parameter.name}` of kernel {source.name} is {value}: it needs over 64 bits",
        )
    return found


def constexpr_key(value: Any) -> Any:
    """A hashable identity of a compile-time value: its type and exact value; NaN is itself again."""
    if isinstance(value, constexpr):
        value = value.value
    if isinstance(value, float | np.floating):
        return (type(value), float(value).hex())
    if isinstance(value, complex):
        return (type(value), repr(value))
    if isinstance(value, tuple | list):
        return (type(value), tuple(constexpr_key(v) for v in value))
    try:
        hash(value)
    except TypeError:
        raise LaunchError(
            "program.arguments#E2", f"a constexpr argument must be hashable, found {type(value).__name__}"
        ) from None
    return (type(value), value)
