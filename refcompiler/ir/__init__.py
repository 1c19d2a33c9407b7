"""The SSA framework: types, ops, printer, parser, verifier, rewriter and pass manager."""

from refcompiler.ir.builder import Builder
from refcompiler.ir.core import Block, Constant, Func, Op, Value
from refcompiler.ir.opdef import OPS, attr, operand
from refcompiler.ir.passes import Pass, PassManager
from refcompiler.ir.printer import print_func, print_ops
from refcompiler.ir.rewriter import Rewriter, rewrite, uses
from refcompiler.ir.verifier import verify

__all__ = [
    "OPS",
    "Block",
    "Builder",
    "Constant",
    "Func",
    "Op",
    "Pass",
    "PassManager",
    "Rewriter",
    "Value",
    "attr",
    "operand",
    "print_func",
    "print_ops",
    "rewrite",
    "uses",
    "verify",
]
