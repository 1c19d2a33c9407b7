"""What kernels name as types: dtypes with Triton's names and predicates, pointer and block types, `constexpr`."""

from __future__ import annotations

from typing import Any

from refcompiler.ir import types as ir

_MANTISSA = {"f8e4m3": 3, "f8e5m2": 2, "f16": 10, "bf16": 7, "f32": 23, "f64": 52}
_EXPONENT_BIAS = {"f8e4m3": 7, "f8e5m2": 15, "f16": 15, "bf16": 127, "f32": 127, "f64": 1023}


class dtype:
    """A scalar number format as kernels name it (`tl.float32`); `ir` is the compiler's own type."""

    __slots__ = ("ir", "python_name")

    def __init__(self, ir_type: ir.DType, python_name: str):
        self.ir, self.python_name = ir_type, python_name

    @property
    def name(self) -> str:
        return self.ir.triton_name

    @property
    def scalar(self) -> dtype:
        return self

    @property
    def primitive_bitwidth(self) -> int:
        return self.ir.bits

    @property
    def itemsize(self) -> int:
        return self.ir.itemsize

    @property
    def int_bitwidth(self) -> int:
        return self.ir.bits

    @property
    def fp_mantissa_width(self) -> int:
        return _MANTISSA[self.ir.name]

    @property
    def exponent_bias(self) -> int:
        return _EXPONENT_BIAS[self.ir.name]

    def is_floating(self) -> bool:
        return self.ir.is_float

    def is_int(self) -> bool:
        """True for every integer and, as upstream counts, for int1."""
        return not self.ir.is_float

    def is_int_signed(self) -> bool:
        return self.ir.kind == "int"

    def is_int_unsigned(self) -> bool:
        return self.ir.kind in ("uint", "bool")

    def is_bool(self) -> bool:
        return self.ir.is_bool

    is_int1 = is_bool

    def is_fp16(self) -> bool:
        return self.ir is ir.F16

    def is_bf16(self) -> bool:
        return self.ir is ir.BF16

    def is_fp32(self) -> bool:
        return self.ir is ir.F32

    def is_fp64(self) -> bool:
        return self.ir is ir.F64

    def is_fp8(self) -> bool:
        return self.ir in ir.FLOATS8

    def is_fp8e4nv(self) -> bool:
        return self.ir is ir.F8E4M3

    def is_fp8e5(self) -> bool:
        return self.ir is ir.F8E5M2

    def is_standard_floating(self) -> bool:
        return self.ir in ir.FLOATS

    def is_ptr(self) -> bool:
        return False

    def is_block(self) -> bool:
        return False

    def get_int_max_value(self) -> int:
        return self.ir.max_int

    def get_int_min_value(self) -> int:
        return self.ir.min_int

    def __eq__(self, other: object) -> bool:
        return isinstance(other, dtype) and self.ir is other.ir

    def __hash__(self) -> int:
        return hash(self.ir)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"tl.{self.python_name}"


class pointer_type:
    """A pointer to elements of a dtype; `const` forbids stores through it."""

    __slots__ = ("element_ty", "const")

    def __init__(self, element_ty: dtype, const: bool = False):
        if not isinstance(element_ty, dtype):
            raise TypeError(f"a pointer points to a dtype such as tl.float32, not to {element_ty!r}")
        self.element_ty, self.const = element_ty, const

    @property
    def ir(self) -> ir.PointerType:
        return ir.PointerType(self.element_ty.ir, self.const)

    @property
    def scalar(self) -> pointer_type:
        return self

    @property
    def primitive_bitwidth(self) -> int:
        return 64

    def is_ptr(self) -> bool:
        return True

    def is_const(self) -> bool:
        return self.const

    def is_block(self) -> bool:
        return False

    def is_floating(self) -> bool:
        return False

    def is_int(self) -> bool:
        return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, pointer_type) and self.ir == other.ir

    def __hash__(self) -> int:
        return hash(self.ir)

    def __str__(self) -> str:
        return f"{'const_' if self.const else ''}pointer<{self.element_ty}>"

    __repr__ = __str__


class block_type:
    """The type of a block, as `x.type` gives it: an element type and a shape."""

    __slots__ = ("element_ty", "shape")

    def __init__(self, element_ty: dtype | pointer_type, shape: tuple[int, ...]):
        self.element_ty, self.shape = element_ty, tuple(shape)

    @property
    def scalar(self) -> dtype | pointer_type:
        return self.element_ty

    def is_block(self) -> bool:
        return True

    def is_ptr(self) -> bool:
        return False

    def get_block_shapes(self) -> tuple[int, ...]:
        return self.shape

    def __eq__(self, other: object) -> bool:
        return isinstance(other, block_type) and (self.element_ty, self.shape) == (other.element_ty, other.shape)

    def __hash__(self) -> int:
        return hash((self.element_ty, self.shape))

    def __str__(self) -> str:
        return f"<{list(self.shape)}, {self.element_ty}>"

    __repr__ = __str__


class constexpr:
    """A compile-time value: annotates parameters and names, and wraps a global so that kernels may read it."""

    __slots__ = ("value",)

    value: Any

    def __init__(self, value: Any):
        self.value = value.value if isinstance(value, constexpr) else value

    def __eq__(self, other: object) -> bool:
        return self.value == (other.value if isinstance(other, constexpr) else other)

    def __hash__(self) -> int:
        return hash(self.value)

    def __index__(self) -> int:
        return self.value.__index__()

    def __bool__(self) -> bool:
        return bool(self.value)

    def __repr__(self) -> str:
        return f"constexpr[{self.value!r}]"


class tensor:
    """A run-time value of a kernel, scalar or block; for `isinstance(x, tl.tensor)` and annotations only."""

    def __init__(self) -> None:
        raise TypeError("tl.tensor is made by kernels only; it has no constructor")


class aggregate:
    """A value of kernels that is several run-time values, `parts`, and what is `known` of it while compiling; both are
    what the constructor takes."""

    __slots__ = ()

    @property
    def parts(self) -> tuple:
        raise NotImplementedError

    @property
    def known(self) -> tuple:
        return ()

    def with_parts(self, parts: tuple) -> aggregate:
        """The same made of other run-time values."""
        return type(self)(*parts, *self.known)

    def describe(self) -> str:
        """It as messages name it."""
        raise NotImplementedError


class tensor_descriptor(aggregate):
    """A descriptor as kernels hold it: its SSA value, and what it was made of as `shape` and `strides`."""

    __slots__ = ("handle", "shape", "strides")

    def __init__(self, handle: Any, shape: tuple, strides: tuple):
        self.handle, self.shape, self.strides = handle, shape, strides

    @property
    def parts(self) -> tuple:
        return self.handle, self.shape, self.strides

    @property
    def type(self) -> ir.DescriptorType:
        return self.handle.type

    def describe(self) -> str:
        return f"a descriptor {self.type}"


class block_pointer(aggregate):
    """A place in an array, from which blocks of a shape known while compiling are loaded and stored."""

    __slots__ = ("base", "block_shape", "offsets", "shape", "strides")

    def __init__(self, base: Any, shape: tuple, strides: tuple, offsets: tuple, block_shape: tuple[int, ...]):
        self.base, self.shape, self.strides, self.offsets = base, shape, strides, offsets
        self.block_shape = block_shape

    @property
    def parts(self) -> tuple:
        return self.base, self.shape, self.strides, self.offsets

    @property
    def known(self) -> tuple:
        return (self.block_shape,)

    @property
    def element(self) -> ir.DType:
        return self.base.type.pointee

    def describe(self) -> str:
        return f"a block pointer to {'x'.join(map(str, self.block_shape))} {self.element}"


class const:
    """Annotates a pointer parameter that the kernel does not store through."""


int1 = dtype(ir.BOOL, "int1")
int8, int16, int32, int64 = (dtype(t, t.triton_name) for t in ir.SIGNED)
uint8, uint16, uint32, uint64 = (dtype(t, t.triton_name) for t in ir.UNSIGNED)
float8e4nv, float8e5 = dtype(ir.F8E4M3, "float8e4nv"), dtype(ir.F8E5M2, "float8e5")
float16, bfloat16 = dtype(ir.F16, "float16"), dtype(ir.BF16, "bfloat16")
float32, float64 = dtype(ir.F32, "float32"), dtype(ir.F64, "float64")

ALL = (
    int1, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float8e4nv, float8e5, float16, bfloat16, float32,
    float64,
)  # fmt: skip
BY_IR = {d.ir: d for d in ALL}

pi32_t = pointer_type(int32)


def to_language(type_: ir.Type) -> dtype | pointer_type | block_type:
    """The kernel-side name of an IR type."""
    shape, element = ir.shape_of(type_), ir.element_of(type_)
    scalar: dtype | pointer_type
    if isinstance(element, ir.PointerType):
        scalar = pointer_type(BY_IR[element.pointee], element.const)
    else:
        scalar = BY_IR[element]
    return block_type(scalar, shape) if shape else scalar
