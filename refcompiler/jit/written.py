"""Which pointer parameters a tile function may store through."""

from __future__ import annotations

from refcompiler.dialects.scf import For
from refcompiler.dialects.tile.memory import pointee
from refcompiler.ir import Block, Func, Value


def written_params(func: Func) -> frozenset[str]:
    """Names of the pointer parameters from which the address of a store derives."""
    origins: dict[Value, set[str]] = {p: {str(p.name)} for p in func.params if pointee(p.type) is not None}
    written: set[str] = set()
    while _walk(func.body, origins, written):  # a loop may carry one pointer into another name: repeat until stable
        pass
    return frozenset(written)


def _walk(block: Block, origins: dict[Value, set[str]], written: set[str]) -> bool:
    changed = False

    def flow(source: Value | None, target: Value) -> None:
        nonlocal changed
        found = origins.get(source, set()) if source is not None else set()
        known = origins.setdefault(target, set())
        if not found <= known:
            known |= found
            changed = True

    for op in block.ops:
        if isinstance(op, For):
            carried, ends = op.body.args[1:], op.body.ops[-1].operands
            for start, argument, end, result in zip(op.inits, carried, ends, op.results, strict=True):
                flow(start, argument)
                flow(end, argument)
                flow(argument, result)
            changed |= _walk(op.body, origins, written)
        elif "write" in op.effects:
            address = op.operands[0]
            new = origins.get(address, set()) - written if address is not None else set()
            written |= new
            changed |= bool(new)
        else:
            for result in op.results:
                if pointee(result.type) is not None:
                    for operand in op.operands:
                        if operand is not None and pointee(operand.type) is not None:
                            flow(operand, result)
    return changed
