"""Give every block a layout; make splats, broadcasts and conversions explicit; compute cheap blocks where needed."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any

from refcompiler.analysis.axis import AxisAnalysis
from refcompiler.analysis.dot_strategy import DotPlans, refused_mma
from refcompiler.analysis.layout_homes import MEMORY, STRUCTURAL, Anchors, Homes
from refcompiler.dialects.scf import Structured
from refcompiler.dialects.tile.dot import Dot
from refcompiler.dialects.tile.reduction import Combination
from refcompiler.ir.core import Block, Constant, Func, Op, Value
from refcompiler.ir.opdef import OPS
from refcompiler.ir.types import BlockType, Type, element_of, shape_of
from refcompiler.layouts import LinearLayout, mma_operand_a, wgmma_accumulator
from refcompiler.remarks import remark


def assign_layouts(func: Func, context: Any) -> Func:
    """The laid-out form of a tile function for ``context.num_warps`` warps.

    Afterwards the operands of an elementwise op, load or store have one shape and one layout.
    """
    for dot in (op for op in func.walk() if isinstance(op, Dot)):
        why = refused_mma(dot, context.target)
        if why is None:
            remark(context, "assign_layouts", dot, "the product is one of tensor cores, by mma.sync", applied=True)
        else:
            remark(context, "assign_layouts", dot, why.after("the product is computed by multiply-add instructions"))
    anchors = Anchors(func, AxisAnalysis(func), context.num_warps)
    homes = Homes(func, anchors, DotPlans(func, context.num_warps, context.target))
    return _Assigner(func, homes, context.num_warps).run()


def _type_in(type_: Type, layout: LinearLayout | None) -> Type:
    return type_ if layout is None else BlockType(element_of(type_), shape_of(type_), layout)


class _Assigner:
    """Rebuilds the function. ``scopes`` maps each open block of the old function to the ops that replace it so far."""

    def __init__(self, func: Func, homes: Homes, num_warps: int):
        self.old, self.homes, self.num_warps = func, homes, num_warps
        params = [Value(p.type, p.name) for p in func.params]
        attrs = {**func.attrs, "num_warps": num_warps}
        self.new = Func(func.name, params, func.constexprs, func.hints, attrs, "laid_out", func.span)
        self.values: dict[Value, Value] = dict(zip(func.params, params, strict=True))  # scalars, and blocks at home
        self.cache: dict[tuple, Value] = {}  # (value, [shape,] layout) -> the value elsewhere than at home
        self.scopes: dict[Block, Block] = {}
        self.block: Block = func.body
        self.block_of: dict[Op, Block] = {}
        for block in (func.body, *(region for o in func.walk() for region in o.regions)):
            self.block_of.update(dict.fromkeys(block.ops, block))

    def run(self) -> Func:
        with self.inside(self.old.body, self.new.body):
            for op in self.old.body.ops:
                self.op(op)
        return self.new

    @contextmanager
    def inside(self, old: Block, new: Block):
        """Within the ``with`` statement ``new`` receives what replaces ``old``."""
        outer, self.block, self.scopes[old] = self.block, old, new
        yield
        self.block = outer
        del self.scopes[old]

    def emit(self, scope: Block, name: str, /, *operands: Value | None, like: Op | None = None, **fields: Any) -> Op:
        """Append an op to what replaces ``scope``; source place and attributes come from ``like``."""
        op = OPS[name](*operands, span=like.span if like else None, **fields)
        if like is not None:
            op.spans = like.spans
            for old, new in zip(like.results, op.results, strict=False):
                new.name = old.name
        return self.scopes[scope].append(op)

    # --- ops in program order
    def op(self, op: Op) -> None:
        if isinstance(op, Structured):
            self.structured(op)
        elif op.terminator:
            pass  # written by the op that owns the region
        elif op.name in MEMORY:
            self.access(op)
        elif isinstance(op, Combination):
            self.combine(op)
        elif op.name == "gather":
            self.gather(op)
        elif isinstance(op, Dot):
            self.dot(op)
        elif op.name == "all_gather":
            self.at_home(op, [self.anywhere(op.x)])
        elif op.name == "ring_take":
            self.at_home(op, op.operands)
        elif op.name == "warpgroup_dot":
            self.warpgroup_dot(op)
        elif op.name == "warpgroup_wait":
            self.at_home(op, [self.get(v, self.homes.of(r)) for v, r in zip(op.products, op.results, strict=False)])
        elif op.name == "bulk_store":
            shape = shape_of(op.value.type)
            value = self.get(op.value, wgmma_accumulator(shape[-2:], self.num_warps // 4).reshape(shape))
            self.emit(self.block, op.name, *map(self.anywhere, op.operands[:-1]), value, like=op, **op.attrs)
        elif op.name == "butterfly":
            new = self.emit(self.block, op.name, self.get(op.x, self.homes.of(op.result)), like=op, **op.attrs)
            self.values[op.result] = new.result
        elif op.results and isinstance(op.results[0].type, BlockType):
            home = self.homes.of(op.results[0])
            if home is not None and op.name not in STRUCTURAL:
                self.values[op.results[0]] = self.build(op, home)
        else:
            self.scalar(op)

    def scalar(self, op: Op) -> None:
        operands = [self.anywhere(o) for o in op.operands]
        types = [r.type for r in op.results]
        new = self.emit(self.block, op.name, *operands, like=op, types=types, **op.attrs)
        self.values.update(zip(op.results, new.results, strict=True))

    def access(self, op: Op) -> None:
        """An access to memory, all of whose operands come to one layout."""
        types = [o.type for o in op.operands if o is not None]
        if not any(isinstance(t, BlockType) for t in types):
            self.scalar(op)
            return
        layout = self.homes.access(op)
        shape = shape_of(op.result.type) if op.results else shape_of(op.pointer.type)
        operands = [None if o is None else self.spread(o, shape, layout) for o in op.operands]
        new = self.emit(self.block, op.name, *operands, like=op, **op.attrs)
        self.values.update(zip(op.results, new.results, strict=True))

    def gather(self, op: Op) -> None:
        """Any layout of the source will do, the result is where its index is."""
        index = self.get(op.index, self.homes.of(op.result))
        new = self.emit(self.block, op.name, self.anywhere(op.x), index, like=op, **op.attrs)
        self.values[op.result] = new.result

    def dot(self, op: Dot) -> None:
        """Operands in the layouts of their fragments, or in any where they come together through shared memory; the
        result is where it adds up."""
        plan = self.homes.dots.of(op)
        operands = [self.at(o, layout) for o, layout in ((op.x, plan.x), (op.y, plan.y))]
        acc = None if op.acc is None else self.get(op.acc, plan.result)
        attrs = {**op.attrs, "strategy": plan.strategy}
        types = [_type_in(op.result.type, plan.result)]
        self.values[op.result] = self.emit(self.block, op.name, *operands, acc, like=op, types=types, **attrs).result

    def at_home(self, op: Op, operands: list[Value | None]) -> None:
        """The op on ``operands``, all of whose results are in their homes."""
        types = [_type_in(r.type, self.homes.of(r)) for r in op.results]
        scalars = [self.anywhere(o) if o in self.values else o for o in operands]
        new = self.emit(self.block, op.name, *scalars, like=op, types=types, **op.attrs)
        self.values.update(zip(op.results, new.results, strict=True))

    def warpgroup_dot(self, op: Op) -> None:
        """The right operand stays in shared memory; the left one does, or comes to the registers of a fragment."""
        home = self.homes.of(op.result)
        x_home, acc = self.homes.of(op.x), None if op.acc is None else self.get(op.acc, home)
        if x_home is not None and x_home.is_shared:
            x = self.get(op.x, x_home)
        else:
            element = element_of(op.x.type)
            x = self.get(op.x, mma_operand_a(shape_of(op.x.type), (self.num_warps, 1), element.itemsize))
        self.at_home(op, [x, self.get(op.y, self.homes.of(op.y)), acc])

    def combine(self, op: Op) -> None:
        """A reduction or a scan, all of whose blocks come to one layout."""
        layout = self.homes.combined(op)
        blocks = [self.get(b, layout) for b in op.blocks]
        used = {v for region in op.regions for inner in region.walk() for v in inner.operands}
        outer = {v: self.values[v] for v in used if v in self.values}
        regions = [region.clone(dict(outer)) for region in op.regions]
        new = self.emit(self.block, op.name, *blocks, like=op, regions=regions, **op.attrs)
        self.values.update(zip(op.results, new.results, strict=True))

    def structured(self, op: Structured) -> None:
        """Carried blocks keep their home's layout, in every region and at both ends."""
        layouts = [self.homes.of(slot.values[-1]) for slot in op.slots()]
        operands = [self.anywhere(v) for v in op.operands[: op.leading]]
        if op.starts:
            operands += self.carried(op.operands[op.leading :], layouts)
        regions = [self.region(region, op, layouts) for region in op.regions]
        types = [_type_in(r.type, layout) for r, layout in zip(op.results, layouts, strict=True)]
        new = self.emit(self.block, op.name, *operands, like=op, regions=regions, types=types, **op.attrs)
        self.values.update(zip(op.results, new.results, strict=True))

    def region(self, old: Block, op: Structured, layouts: list[LinearLayout | None]) -> Block:
        own: list[LinearLayout | None] = [None] * op.leading_args
        args = [Value(_type_in(a.type, at), a.name) for a, at in zip(old.args, own + layouts, strict=False)]
        self.values.update(zip(old.args, args, strict=True))
        new = Block(args)
        with self.inside(old, new):
            for each in old.ops:
                self.op(each)
            end = old.terminator
            leading = [self.anywhere(v) for v in end.operands[: end.leading]]
            self.emit(old, end.name, *leading, *self.carried(end.carried, layouts), like=end)
        return new

    def carried(self, values: list[Value], layouts: list[LinearLayout | None]) -> list[Value]:
        return [self.at(v, layout) for v, layout in zip(values, layouts, strict=True)]

    # --- values on demand
    def at(self, value: Value, layout: LinearLayout | None) -> Value:
        return self.anywhere(value) if layout is None else self.get(value, layout)

    def anywhere(self, value: Value | None) -> Value | None:
        """A scalar, or a block in the layout that suits it."""
        if value is None or isinstance(value, Constant):
            return value
        if not isinstance(value.type, BlockType):
            return self.values[value]
        return self.get(value, self.homes.of(value) or self.homes.anchors.of(value))

    def get(self, value: Value, layout: LinearLayout) -> Value:
        """A block in ``layout``: as it is, computed there, or converted at its definition."""
        at_home = self.values.get(value)
        if at_home is not None and at_home.type.layout == layout:
            return at_home
        found = self.cache.get((value, layout))
        if found is None:
            if at_home is not None:
                found = self.convert(value, at_home, layout)
            else:
                found = self.build(value.owner, layout)
                if found.type.layout != layout:
                    found = self.convert(value, found, layout)
            self.cache[value, layout] = found
        return found

    def convert(self, old: Value, new: Value, layout: LinearLayout) -> Value:
        scope = self.scope_of(old)
        type_ = BlockType(new.type.element, new.type.shape, layout)
        op = self.emit(scope, "convert_layout", new, types=[type_])
        op.span = old.owner.span if isinstance(old.owner, Op) else None
        return op.result

    def scope_of(self, value: Value) -> Block:
        """The open block in which ``value`` is defined: what depends on it alone is computed there, outside loops."""
        return value.owner if isinstance(value.owner, Block) else self.block_of[value.owner]

    @contextmanager
    def where_defined(self, value: Value):
        outer, self.block = self.block, self.scope_of(value)
        yield
        self.block = outer

    def build(self, op: Op, layout: LinearLayout) -> Value:
        """The op's result computed in ``layout``."""
        with self.where_defined(op.results[0]):
            return self.build_here(op, layout)

    def build_here(self, op: Op, layout: LinearLayout) -> Value:
        type_ = op.results[0].type
        shape = type_.shape
        if op.name == "broadcast":
            return self.spread(op.x, shape, layout)
        if op.name == "expand_dims":
            x = self.get(op.x, layout.slice(op.axis)) if shape_of(op.x.type) else self.anywhere(op.x)
            if shape_of(op.x.type):
                return self.emit(self.block, op.name, x, like=op, axis=op.axis).result
            return self.spread(op.x, shape, layout)
        if op.name == "trans":
            inverse = tuple(op.order.index(i) for i in range(len(shape)))
            x = self.get(op.x, layout.transpose(inverse))
            return self.emit(self.block, op.name, x, like=op, order=op.order).result
        laid_out: Type = BlockType(type_.element, shape, layout)
        if op.name == "reshape":
            x = self.get(op.x, layout.reshape(shape_of(op.x.type)))
            return self.emit(self.block, op.name, x, like=op, types=[laid_out]).result
        if op.name == "full":
            return self.emit(self.block, op.name, self.anywhere(op.value), like=op, types=[laid_out]).result
        operands = [self.spread(o, shape, layout) for o in op.operands]
        return self.emit(self.block, op.name, *operands, like=op, types=[laid_out], **op.attrs).result

    def spread(self, value: Value, shape: tuple[int, ...], layout: LinearLayout) -> Value:
        """``value`` broadcast to ``shape`` in ``layout``, with the ops that this takes."""
        source = shape_of(value.type)
        if source == shape:
            return self.get(value, layout)
        type_ = BlockType(element_of(value.type), shape, layout)
        if not source:
            return self.emit(self.block, "full", self.anywhere(value), types=[type_]).result
        key = (value, shape, layout)
        if key not in self.cache:
            with self.where_defined(value):
                self.cache[key] = self.broadcast(value, type_)
        return self.cache[key]

    def broadcast(self, value: Value, type_: BlockType) -> Value:
        shape, layout = type_.shape, type_.layout
        source = shape_of(value.type)
        new = len(shape) - len(source)
        for dim in range(len(shape)):
            if dim < new or source[dim - new] != shape[dim]:
                layout = layout.project(dim)
        layout = layout.without_free_registers()
        for _ in range(new):
            layout = layout.slice(0)
        x = self.get(value, layout)
        for _ in range(new):
            x = self.emit(self.block, "expand_dims", x, axis=0).result
        if x.type == type_:
            return x
        return self.emit(self.block, "broadcast", x, types=[type_]).result
