"""The tile interpreter's memory: masks, pointers of every kind, dtypes, ranks of arrays."""

import numpy as np
import pytest
from ir_kernels import kernel, out_of, stored

from refcompiler import interpreter
from refcompiler.errors import RunError
from refcompiler.ir.types import DTYPES


def test_a_mask_with_holes():
    lines = "%1 = and %0, 1 : vector<8 x i32>\n  %2 = cmp_eq %1, 0 : vector<8 x bool>"
    body = f"""
  %0 = arange {{start=0, end=8}} : vector<8 x i32>
  {lines}
  %3 = addptr x, %0 : vector<8 x ptr<i32>>
  %4 = load %3, %2, -1 : vector<8 x i32>
  %5 = addptr out, %0 : vector<8 x ptr<i32>>
  store %5, %4, none
  %6 = add %4, 100 : vector<8 x i32>
  %7 = addptr %5, 8:i32 : vector<8 x ptr<i32>>
  store %7, %6, %2
"""
    out = out_of("out: ptr<i32>, x: ptr<i32>", body, 16, np.int32, x=np.arange(10, 18, dtype=np.int32))
    assert out[:8].tolist() == [10, -1, 12, -1, 14, -1, 16, -1]
    assert out[8:].tolist() == [110, 77, 112, 77, 114, 77, 116, 77]


def test_what_was_loaded_does_not_change_with_a_later_store():
    body = """
  %0 = arange {start=0, end=4} : vector<4 x i32>
  %1 = addptr out, %0 : vector<4 x ptr<i32>>
  %2 = load %1, none, none : vector<4 x i32>
  store %1, %0, none
  %3 = load %1, none, none : vector<4 x i32>
  %4 = sub %2, %3 : vector<4 x i32>
  store %1, %4, none
"""
    assert out_of("out: ptr<i32>", body, 4, np.int32).tolist() == [77, 76, 75, 74]


def test_a_mask_grows_the_pointer_of_a_load():
    body = """
  %0 = arange {start=0, end=4} : vector<4 x i32>
  %1 = arange {start=0, end=2} : vector<2 x i32>
  %2 = expand_dims %1 {axis=1} : block<2x1 x i32>
  %3 = expand_dims %0 {axis=0} : block<1x4 x i32>
  %4 = add %2, %3 : block<2x4 x i32>
  %5 = cmp_lt %4, n : block<2x4 x bool>
  %6 = addptr x, %0 : vector<4 x ptr<i32>>
  %7 = load %6, %5, -1 : block<2x4 x i32>
  %8 = mul %2, 4 : block<2x1 x i32>
  %9 = add %8, %3 : block<2x4 x i32>
  %10 = addptr out, %9 : block<2x4 x ptr<i32>>
  store %10, %7, none
"""
    x = np.array([5, 6, 7, 8], np.int32)
    out = out_of("out: ptr<i32>, x: ptr<i32>, n: i32", body, (2, 4), np.int32, x=x, n=3)
    assert out.tolist() == [[5, 6, 7, -1], [5, 6, -1, -1]]
    short = out_of("out: ptr<i32>, x: ptr<i32>, n: i32", body, (2, 4), np.int32, x=x[:3].copy(), n=3)
    assert short.tolist() == out.tolist()  # no program reads x[3]
    assert (out_of("out: ptr<i32>, x: ptr<i32>, n: i32", body, (2, 4), np.int32, x=x, n=-5) == -1).all()


def test_pointers_into_several_arrays():
    body = """
  %0 = arange {start=0, end=4} : vector<4 x i32>
  %1 = and %0, 1 : vector<4 x i32>
  %2 = cmp_eq %1, 0 : vector<4 x bool>
  %3 = addptr x, %0 : vector<4 x ptr<i32>>
  %4 = addptr y, %0 : vector<4 x ptr<i32>>
  %5 = select %2, %3, %4 : vector<4 x ptr<i32>>
  %6 = addptr %5, 1:i32 : vector<4 x ptr<i32>>
  %7 = load %6, none, none : vector<4 x i32>
  %8 = addptr out, %0 : vector<4 x ptr<i32>>
  store %8, %7, none
  store %5, %0, %2
"""
    x, y = np.arange(10, 15, dtype=np.int32), np.arange(20, 25, dtype=np.int32)
    out = out_of("out: ptr<i32>, x: ptr<i32>, y: ptr<i32>", body, 4, np.int32, x=x, y=y)
    assert out.tolist() == [11, 22, 13, 24]
    assert x.tolist() == [0, 11, 2, 13, 14] and y.tolist() == [20, 21, 22, 23, 24]


def test_one_of_two_pointers_by_program():
    body = """
  %0 = program_id {axis=0} : i32
  %1 = cmp_eq %0, 1 : bool
  %2 = select %1, x, out : ptr<i32>
  %3 = addptr %2, %0 : ptr<i32>
  store %3, 5, none
"""
    x = np.zeros(3, np.int32)
    out = out_of("out: ptr<i32>, x: ptr<i32>", body, 3, np.int32, grid=(3,), x=x)
    assert out.tolist() == [5, 77, 5] and x.tolist() == [0, 5, 0]


def test_pointers_move_by_unsigned_numbers():
    lines = "%1 = cast %0 : vector<4 x u8>\n  %2 = add %1, 200 : vector<4 x u8>\n"
    lines += "  %3 = addptr x, %2 : vector<4 x ptr<i32>>"
    x = np.arange(256, dtype=np.int32)
    got = stored("load %3, none, none", "vector<4 x i32>", "i32", 4, ", x: ptr<i32>", lines, x=x)
    assert got == [200, 201, 202, 203]


def test_pointers_seen_as_another_type():
    lines = """
  %1 = bitcast x : ptr<u8>
  %2 = addptr %1, %0 : vector<8 x ptr<u8>>"""
    x = np.array([0x04030201, 0x08070605], np.uint32)
    got = stored("load %2, none, none", "vector<8 x u8>", "u8", 8, ", x: ptr<u32>", lines, x=x)
    assert got == [1, 2, 3, 4, 5, 6, 7, 8]
    wide = """
  %1 = arange {start=0, end=2} : vector<2 x i32>
  %2 = mul %1, n : vector<2 x i32>
  %3 = addptr x, %2 : vector<2 x ptr<u16>>
  %4 = bitcast %3 : vector<2 x ptr<u32>>
  %5 = load %4, none, none : vector<2 x u32>
  %6 = addptr out, %1 : vector<2 x ptr<u32>>
  store %6, %5, none
"""
    header, x = "out: ptr<u32>, x: ptr<u16>, n: i32", x.view(np.uint16)
    assert out_of(header, wide, 2, np.uint32, x=x, n=2).tolist() == [0x04030201, 0x08070605]
    with pytest.raises(RunError, match="poison that bitcast made"):  # not aligned to four bytes
        out_of(header, wide, 2, np.uint32, x=x, n=1)


def test_conflicts_see_through_pointers_of_other_widths():
    body = """
  %0 = program_id {axis=0} : i32
  %1 = bitcast out : ptr<u8>
  %2 = mul %0, n : i32
  %3 = addptr %1, %2 : ptr<u8>
  store %3, 1, none
  %4 = addptr out, %0 : ptr<u16>
  %5 = load %4, none, none : u16
"""
    header = "out: ptr<u16>, n: i32"
    own = out_of(header, body, 4, np.uint16, grid=(4,), n=2)  # each program has the two bytes of one number
    assert own.view(np.uint8).tolist() == [1, 0] * 4
    with pytest.raises(RunError) as caught:
        out_of(header, body, 4, np.uint16, grid=(4,), n=1)
    assert caught.value.id == "memory.order#E1"
    assert "program (0, 0, 0) reads out[0], which program (1, 0, 0) wrote" in str(caught.value)


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_every_dtype_moves_through_memory(dtype):
    values = np.array([0, 1, 1, 0, 1, 0, 0, 1]) if dtype.is_bool else np.arange(8) * 3 % 7
    x = values.astype(dtype.numpy)
    body = f"""
  %0 = arange {{start=0, end=8}} : vector<8 x i32>
  %1 = addptr x, %0 : vector<8 x ptr<{dtype}>>
  %2 = cmp_lt %0, 6 : vector<8 x bool>
  %3 = load %1, %2, none : vector<8 x {dtype}>
  %4 = sub 7, %0 : vector<8 x i32>
  %5 = addptr out, %4 : vector<8 x ptr<{dtype}>>
  store %5, %3, %2
"""
    out = np.zeros(8, dtype.numpy)
    interpreter.run(kernel(f"x: ptr<{dtype}>, out: ptr<{dtype}>", body), (1,), {"x": x, "out": out})
    assert out.tolist() == [0, 0, *x[5::-1].tolist()]


def test_arrays_of_any_rank_are_their_memory():
    body = """
  %0 = arange {start=0, end=4} : vector<4 x i32>
  %1 = addptr out, %0 : vector<4 x ptr<i32>>
  store %1, %0, none
"""
    func = kernel("out: ptr<i32>", body)
    fortran = np.zeros((2, 2), np.int32, order="F")
    interpreter.run(func, (1,), {"out": fortran})
    assert fortran.tolist() == [[0, 2], [1, 3]]
    unaligned = np.zeros(17, np.uint8)[1:].view(np.int32)
    interpreter.run(func, (1,), {"out": unaligned})
    assert unaligned.tolist() == [0, 1, 2, 3]
