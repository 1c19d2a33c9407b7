"""Parts of feature files that several sections share: arguments, oracles, numerics, axes of parameters."""

from __future__ import annotations

from typing import Any

from conformance import model, yaml_text
from conformance.signatures import SignatureError, parse_argument
from conformance.yaml_text import Document


def argument(document: Document, path: yaml_text.Path, text: str) -> model.Argument:
    """One line of a signature."""
    try:
        return parse_argument(text)
    except SignatureError as e:
        raise document.error("spec.signature", str(e), path) from None


def oracle(body: dict[str, Any] | None) -> model.Oracle | None:
    """An `oracle:` block, None where there is none."""
    if body is None:
        return None
    if "ref" in body:
        return model.Oracle(**body)
    return model.Oracle(values={k: model.Value(v) if isinstance(v, str) else model.Value(**v) for k, v in body.items()})


def numerics(body: dict[str, Any] | None) -> model.Numerics | None:
    """A `numerics:` block, None where there is none."""
    if body is None:
        return None
    fields = dict(body)
    if "depth" in fields:
        fields["depth"] = str(fields["depth"])
    fields["outputs"] = {k: numerics(v) for k, v in fields.get("outputs", {}).items()}
    return model.Numerics(**fields)


def axes(document: Document, path: yaml_text.Path, body: dict[str, list[Any]]) -> model.Axes:
    """`N: [1, 2]` is one axis; `"N, BLOCK": [[1, 32], [33, 64]]` is one axis of tuples that belong together."""
    found = []
    for key, values in body.items():
        names = tuple(n.strip() for n in key.split(","))
        rows = []
        for i, value in enumerate(values):
            row = tuple(value) if isinstance(value, list) else (value,)
            if len(row) != len(names):
                raise document.error(
                    "spec.value", f"expected {len(names)} value(s) for {key!r}, found {len(row)}", (*path, key, i)
                )
            rows.append(row)
        found.append((names, tuple(rows)))
    return tuple(found)
