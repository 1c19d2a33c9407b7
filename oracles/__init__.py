"""The judge: independent NumPy and fp64 reference functions; imports nothing of what it judges.

An oracle is addressed in a feature file as ``oracles.<module>:<function>`` and found by `lookup`. Its
convention:

``f(inputs, params, xp=None) -> refs``

``inputs``
    dict of kernel parameter name -> `numpy.ndarray` as the kernel receives it: in its logical shape and own
    dtype (bool, int8..int64, uint8..uint64, float16, `ml_dtypes.bfloat16`, float32, float64). Never written
    to. Names an oracle does not use are ignored. Unary oracles read ``x``; binary ones ``x, y``; ternary
    ones ``x, y, z``; matmul reads ``a, b``; a mask is ``mask``, an index array ``index``. Masks may be left
    out: everything is active.
``params``
    dict of everything else the instance has: case parameters, constexprs and scalar arguments. Names an
    oracle does not use are ignored. A binary or ternary oracle finds an operand that is not among
    ``inputs`` here: a Python bool, int or float is a *literal* (weakly typed), a NumPy scalar is a run-time
    scalar of that type. Formats are text (``"f16"``).
``xp``
    None: the reference value. A `oracles.bounded.BoundedNamespace`: the value and its enclosure under that
    rounding model; only oracles with ``bounded`` set accept it.
``refs``
    dict with one entry per output name (``out``; a second output is named by the oracle) and, beside it,
    entries whose key is the output name, a dot and one of these words:

    ``out``
        float64 reference value, or an array of the exact result type (integers, bool, or a float type when
        the operation is correctly rounded). The implicit conversion of a store into another type is
        applied by `oracles.compare`, not by the oracle.
    ``out.tail``
        float64: the exact value is ``out + out.tail`` (double-double, for f64 results).
    ``out.abs_terms``
        float64, the sum of the absolute values of the terms (A in the dot bound).
    ``out.lower``, ``out.upper``
        float64, what a right implementation may compute lies between them (mode ``derived``); both infinite:
        anything; both NaN: NaN.
    ``out.written``
        bool: the elements the kernel stores; the others must keep their content. Absent: all.
    ``out.unspecified``
        bool: elements of which any value is right (x // 0). Absent: none.
    ``out.dropped``
        a wrong answer that lacks one term, for the self-check of a case.

A missing input, a missing parameter or an unknown name raises `OracleError` with what was found and expected.
"""

from oracles.registry import Oracle, OracleError, lookup, names, oracle

__all__ = ["Oracle", "OracleError", "lookup", "names", "oracle"]
