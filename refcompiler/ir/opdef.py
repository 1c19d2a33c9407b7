"""How an op is declared: operand and attribute fields, and the one registry of all ops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

OPS: dict[str, Any] = {}


@dataclass(slots=True)
class Operand:
    """An operand field: reads ``op.operands`` by position. ``variadic`` (last field only) takes all that remain."""

    optional: bool = False
    variadic: bool = False
    doc: str = ""
    name: str = ""
    index: int = 0

    def __get__(self, op, owner=None):
        if op is None:
            return self
        return op.operands[self.index :] if self.variadic else op.operands[self.index]


@dataclass(slots=True)
class Attr:
    """An attribute field: a Python literal; left out of the text while it equals ``default``."""

    type: Any
    default: Any = None
    required: bool = True
    doc: str = ""
    name: str = ""

    def __get__(self, op, owner=None):
        return self if op is None else op.attrs[self.name]


def operand(*, optional: bool = False, variadic: bool = False, doc: str = "") -> Any:
    """Declare an operand of an op class."""
    return Operand(optional=optional, variadic=variadic, doc=doc)


_REQUIRED = object()


def attr(type: Any, default: Any = _REQUIRED, *, doc: str = "") -> Any:
    """Declare an attribute of an op class; with a default it may be left out."""
    if default is _REQUIRED:
        return Attr(type, None, True, doc)
    return Attr(type, default, False, doc)


class OpMeta(type):
    """Collects the fields of an op class and puts it into the registry under its ``name``."""

    def __new__(mcls, cls_name, bases, namespace, *, name: str | None = None, **flags):
        cls: Any = super().__new__(mcls, cls_name, bases, dict(namespace))
        operands = [f for f in namespace.values() if isinstance(f, Operand)]
        attrs = [f for f in namespace.values() if isinstance(f, Attr)]
        for key, field in namespace.items():
            if isinstance(field, Operand | Attr):
                field.name = key
        for index, field in enumerate(operands):
            field.index = index
        if operands:
            cls.operand_fields = tuple(operands)
        if attrs:
            cls.attr_fields = tuple(attrs)
        for key, value in flags.items():
            setattr(cls, key, frozenset(value) if key == "effects" else value)
        if name is not None:
            if name in OPS:
                raise TypeError(f"op {name} is declared twice")
            if __debug__ and not (cls.__doc__ or namespace.get("doc")):  # python -OO drops docstrings
                raise TypeError(f"op {name} needs a docstring")
            cls.name = name
            OPS[name] = cls
        return cls

    def __init__(cls, cls_name, bases, namespace, **flags):
        super().__init__(cls_name, bases, namespace)
