"""Binds `oracle:` and `numerics:` of a case to the judge: references for each output, and how close is close."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from conformance import model
from conformance.dtypes import DTYPES
from conformance.expressions import ExpressionError, evaluate
from oracles.compare import Comparison, Tolerance, judge
from oracles.registry import lookup

Refs = dict[str, Any]


class Unjudgeable(Exception):
    """The suite's own mistake: an oracle or tolerance that cannot be computed for this instance."""


def references(
    oracle: model.Oracle,
    numerics: model.Numerics,
    outputs: Mapping[str, np.ndarray],
    arrays: Mapping[str, np.ndarray],
    names: Mapping[str, Any],
) -> Refs:
    """Expected values of every output, as `oracles` describes them, under the kernel's output names.

    outputs: output name to its contents before the run. arrays: every array's contents before the run.
    names: parameters, constexprs, typed scalars, grid. Raises Unjudgeable.
    """
    env = {**names, **arrays}
    try:
        with np.errstate(all="ignore"):
            refs = _call(oracle, numerics, outputs, arrays, names) if oracle.ref else _values(oracle, outputs, env)
            for output in outputs:
                block = numerics.of(output)
                if block.magnitude:
                    terms = np.broadcast_to(evaluate(block.magnitude, env), outputs[output].shape)
                    refs[f"{output}.abs_terms"] = np.abs(np.asarray(terms, np.float64))
    except (ExpressionError, ValueError, TypeError, LookupError, ArithmeticError, MemoryError) as e:
        raise Unjudgeable(f"oracle: {type(e).__name__}: {e}") from e
    return refs


def _values(oracle: model.Oracle, outputs: Mapping[str, np.ndarray], env: Mapping[str, Any]) -> Refs:
    refs: Refs = {}
    for name, before in outputs.items():
        entry = oracle.values[name]
        refs[name] = np.broadcast_to(np.asarray(evaluate(entry.value, env)), before.shape)
        for word, text in (("written", entry.written), ("unspecified", entry.unspecified)):
            if text:
                refs[f"{name}.{word}"] = np.broadcast_to(np.asarray(evaluate(text, env), bool), before.shape)
    return refs


def _call(
    oracle: model.Oracle,
    numerics: model.Numerics,
    outputs: Mapping[str, np.ndarray],
    arrays: Mapping[str, np.ndarray],
    names: Mapping[str, Any],
) -> Refs:
    env = {**names, **arrays}
    inputs = {**arrays, **{k: np.asarray(evaluate(v, env)) for k, v in oracle.inputs.items()}}
    words = {d: d for d in DTYPES}
    params = {
        **names,
        **{k: evaluate(v, {**words, **names, **arrays}) if isinstance(v, str) else v for k, v in oracle.params.items()},
    }
    function = lookup(oracle.ref)
    found = function(inputs, params)
    if _is_derived(numerics):  # the wrong answers for the self-check come with the plain reference only
        found = {**found, **function(inputs, params, xp=_bounded(numerics, names))}
    refs: Refs = {}
    only = next(iter(outputs)) if len(outputs) == 1 else None
    for output, before in outputs.items():
        theirs = oracle.outputs.get(output) or (output if output in found or only is None else "out")
        if theirs not in found:
            raise Unjudgeable(f"oracle {oracle.ref} gives {', '.join(found)}, not {theirs!r}; use outputs: to map")
        for key, value in found.items():
            if key == theirs or key.startswith(theirs + "."):
                refs[output + key[len(theirs) :]] = _shaped(np.asarray(value), before.shape, oracle.ref)
    return refs


def _shaped(value: np.ndarray, shape: tuple[int, ...], ref: str) -> np.ndarray:
    """The oracle's array in the output's shape: the same number of elements, or one that broadcasts."""
    if value.size == int(np.prod(shape)):
        return value.reshape(shape)
    try:
        return np.broadcast_to(value, shape)
    except ValueError:
        raise Unjudgeable(f"oracle {ref} gives shape {value.shape}, the output has {shape}") from None


def _is_derived(numerics: model.Numerics) -> bool:
    return any(b.mode == "derived" for b in (numerics, *numerics.outputs.values()))


def _bounded(numerics: model.Numerics, names: Mapping[str, Any]) -> Any:
    from oracles import bounded

    block = next(b for b in (numerics, *numerics.outputs.values()) if b.mode == "derived")
    depth = None
    if block.depth:
        roundings = float(evaluate(block.depth, names))
        depth = lambda n: roundings  # noqa: E731 - the model asks for a function of the number of terms
    table = bounded.FAST if block.accuracy == "fast" else bounded.PRECISE
    return bounded.BoundedNamespace(
        bounded.Model(fmt=block.acc or "f32", ulp=table, depth=depth, flush=block.subnormal == "flush_ok")
    )


def tolerance(numerics: model.Numerics, output: str, dtype: str, env: Mapping[str, Any]) -> Tolerance:
    """The limits for one output of one instance; `env` has parameters, scalars and arrays before the run."""
    block = numerics.of(output)
    if not DTYPES[dtype].is_float:
        block = model.Numerics("exact")
    try:
        with np.errstate(all="ignore"):
            depth = float(evaluate(block.depth, env)) if block.depth else None
            return Tolerance(
                mode=block.mode,
                ulp=_limit(block.ulp, dtype, env),
                absolute=_limit(block.absolute, dtype, env) or 0.0,
                acc=_word(block.acc, env) or "f32",
                depth=depth,
                signed_zero=block.signed_zero or None,
                flush=block.subnormal == "flush_ok",
                truncating=block.truncating,
            )
    except (ExpressionError, ValueError, TypeError, KeyError) as e:
        raise Unjudgeable(f"numerics: {type(e).__name__}: {e}") from e


def _limit(limit: Any, dtype: str, env: Mapping[str, Any]) -> Any:
    if isinstance(limit, Mapping):
        if dtype not in limit:
            raise KeyError(f"no limit for {dtype}; there are limits for {', '.join(limit)}")
        limit = limit[dtype]
    limit = evaluate(limit, env) if isinstance(limit, str) else limit
    # of an input that is NaN a limit may be none; it lets nothing pass but what the reference demands
    if limit is not None and (np.any(np.less(limit, 0)) or np.all(np.isnan(limit))):
        raise ValueError(f"a limit is a number from 0, found {limit}")
    return limit


def _word(text: str, env: Mapping[str, Any]) -> str:
    """A dtype name, or a parameter in braces that holds one."""
    return str(env[text[1:-1]]) if text.startswith("{") else text


def compare(
    got: np.ndarray, refs: Mapping[str, Any], output: str, limits: Tolerance, initial: np.ndarray
) -> Comparison:
    """Judge one output; oracle mistakes become Unjudgeable."""
    try:
        return judge(got, refs, output, limits, initial=initial)
    except ValueError as e:
        raise Unjudgeable(f"output {output!r}: {e}") from e
