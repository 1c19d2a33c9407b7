"""What becomes a variable and what is written where it is used, decided before any text is made."""

from __future__ import annotations

from refcompiler.dialects.elementwise import Elementwise
from refcompiler.dialects.simt.registers import count_of
from refcompiler.ir.core import Block, Constant, Func, Op, Value
from refcompiler.ir.types import BF16, F16, F32, PointerType, RegType, element_of

VIEWS = frozenset({"extract", "splat", "constants"})  # never a statement: they say which register is meant
_EXPRESSIONS = frozenset({"select", "cast", "bitcast", "addptr", "program_id", "num_programs", "thread_id"})
_MAX_DEPTH = 3  # operators nested in one written expression
WHOLE = frozenset(
    {"mma_sync", "wgmma", "wgmma_wait", "ldmatrix", "stmatrix"}
)  # one statement on arrays, whatever the number of registers
_TAKES_WORDS = frozenset({"mma_sync", "wgmma", "stmatrix"})
WIDE = {"ld_global": "other", "ld_shared": "", "st_global": "value", "st_shared": "value"}


def is_expression(op: Op) -> bool:
    return isinstance(op, Elementwise) or op.name in _EXPRESSIONS or op.name in VIEWS


def trips(op: Op) -> int:
    """How often the statement of ``op`` is repeated: once per register, or once per access."""
    if op.regions or op.terminator or op.name in WHOLE:
        return 1
    if op.name in ("ld_global", "st_global", "atomic_rmw", "atomic_cas"):
        return count_of(op.pointer.type)
    if op.name in ("ld_shared", "st_shared", "cp_async"):
        return count_of(op.index.type)
    if op.name == "assert":
        return count_of(op.condition.type)
    return count_of(op.results[0].type) if op.results else 1


class Plan:
    """The inlined ops of a function; every other op is one statement, its result one variable."""

    def __init__(self, func: Func):
        self.users: dict[Value, list[Op]] = {}
        self.block_of: dict[Op, Block] = dict.fromkeys(func.body.ops, func.body)
        for op in func.walk():
            for value in op.operands:
                if value is not None and not isinstance(value, Constant):
                    self.users.setdefault(value, []).append(op)
            for region in op.regions:
                self.block_of.update(dict.fromkeys(region.ops, region))
        self.inlined: set[Op] = set()
        self.paired: set[Op] = set()  # casts of which one instruction does two registers
        self.depth: dict[Op, int] = {}
        for op in reversed(list(func.walk())):  # users first
            if len(op.results) == 1 and is_expression(op) and self._inline(op):
                self.inlined.add(op)

    def statements_using(self, value: Value) -> list[Op]:
        """The ops that are statements and in whose text ``value`` is written, once per time it is written."""
        found = []
        for user in self.users.get(value, ()):
            if user in self.inlined:
                found += self.statements_using(user.results[0])
            else:
                found.append(user)
        return found

    def _inline(self, op: Op) -> bool:
        if op.name in VIEWS:
            return True
        result = op.results[0]
        uses = self.statements_using(result)
        is_vector = isinstance(result.type, RegType)
        if op.name == "addptr" and is_vector and not isinstance(op.pointer.type, RegType):
            return True  # base[offset] reads better than a pointer per register
        if uses and self._pairs(op, uses):
            self.paired.add(op)
            return False
        if len(uses) != 1:
            return not uses
        user, direct = uses[0], self.users[result][0]
        if self.block_of[user] is not self.block_of[op] or direct.name in VIEWS:
            return False
        if user.name == "for" and any(result is bound for bound in user.operands[:3]):
            return False
        if is_vector and user.name == "wgmma":
            return False  # a fence comes between registers and the product that takes them
        if not is_vector and self._repeats(user, direct, result):
            return False
        if is_vector and not self._same_index(direct, result):
            return False
        self.depth[op] = 1 + (self.depth.get(direct, 0) if direct in self.inlined else 0)
        return self.depth[op] <= _MAX_DEPTH or isinstance(element_of(result.type), PointerType)

    @staticmethod
    def _pairs(op: Op, uses: list[Op]) -> bool:
        """True if ``op`` rounds what is read as words of two, or products. ptxas takes roundings one by one for reads
        of products that are on their way, and would have wgmma wait for each other."""
        rounds = op.name == "cast" and element_of(op.x.type) is F32 and element_of(op.results[0].type) in (F16, BF16)
        if not rounds or count_of(op.results[0].type) % 2:
            return False
        products = isinstance(op.x.owner, Op) and op.x.owner.name == "wgmma_wait"
        return products or all(user.name in _TAKES_WORDS for user in uses)

    def trips(self, op: Op) -> int:
        """How often the statement of ``op`` is repeated."""
        return 1 if op in self.paired else trips(op)

    def _repeats(self, user: Op, direct: Op, result: Value) -> bool:
        """True if the text of a scalar would stand in a loop over registers."""
        if user.regions or user.terminator:
            return isinstance(direct.results[0].type, RegType) if direct in self.inlined else False
        return trips(user) > 1

    @staticmethod
    def _same_index(direct: Op, result: Value) -> bool:
        """True if each register of ``result`` is written once, at the place of the same register."""
        field = WIDE.get(direct.name)
        if field is not None and direct.attrs["width"] > 1:
            return all(value is not result or name != field for name, value in direct.named_operands())
        return True

    def reads(self, value: Value | None, same_index: bool = True) -> dict[Value, bool]:
        """The variables in the text of ``value``, each with whether register i is read only for register i."""
        if value is None or isinstance(value, Constant):
            return {}
        owner = value.owner
        if not (isinstance(owner, Op) and owner in self.inlined):
            return {value: same_index and isinstance(value.type, RegType)}
        found: dict[Value, bool] = {}
        for operand in owner.operands:
            for variable, same in self.reads(operand, same_index and owner.name not in VIEWS).items():
                found[variable] = found.get(variable, True) and same
        return found

    def reads_of(self, op: Op) -> dict[Value, bool]:
        """The variables in the statement of ``op``."""
        found: dict[Value, bool] = {}
        wide = op.attrs.get("width", 1) > 1
        for name, operand in op.named_operands():
            for variable, same in self.reads(operand, not (wide and name == WIDE.get(op.name))).items():
                found[variable] = found.get(variable, True) and same
        return found
