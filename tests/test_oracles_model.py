"""The oracles of programs, shapes and memory, and the registry's checks of a call."""

import ml_dtypes
import numpy as np
import pytest

import oracles
from oracles import OracleError, lookup
from oracles.compare import Tolerance, judge


def call(name, params=None, **inputs):
    return lookup(f"oracles.{name}")(inputs, params or {})


# ------------------------------------------------------------------------------------- programs and creation
def test_program_ids_count_the_first_axis_fastest():
    grid = {"grid": (2, 3, 2)}
    programs = [(x, y, z) for z in range(2) for y in range(3) for x in range(2)]
    for axis in range(3):
        refs = call("program:program_id", {**grid, "axis": axis})
        assert refs["out"].dtype == np.int32 and refs["out"].tolist() == [p[axis] for p in programs]
        assert call("program:num_programs", {**grid, "axis": axis})["out"].tolist() == [grid["grid"][axis]] * 12
    assert call("program:program_id", {"grid": 3})["out"].tolist() == [0, 1, 2]
    assert call("program:program_id", {"grid": [2, 2], "axis": 2})["out"].tolist() == [0] * 4


def test_bad_programs():
    with pytest.raises(OracleError, match="4 axes"):
        call("program:program_id", {"grid": (1, 1, 1, 1)})
    with pytest.raises(OracleError, match="program axis 3"):
        call("program:program_id", {"grid": 1, "axis": 3})
    with pytest.raises(OracleError, match="non-negative"):
        call("program:full", {"shape": -1, "value": 1, "dtype": "i32"})


def test_creation():
    assert call("program:arange", {"start": 3, "end": 7})["out"].tolist() == [3, 4, 5, 6]
    assert call("program:arange", {"start": 0, "end": 4})["out"].dtype == np.int32
    assert call("program:full", {"shape": "2, 2", "value": 300, "dtype": "i8"})["out"].tolist() == [[44, 44]] * 2
    assert call("program:full", {"shape": 2, "value": -1, "dtype": "u64"})["out"].tolist() == [2**64 - 1] * 2
    half = call("program:full", {"shape": 2, "value": 0.1, "dtype": "bf16"})["out"]
    assert half.dtype == ml_dtypes.bfloat16 and float(half[0]) == 0.10009765625
    zeros = call("program:zeros", {"shape": [2, 3], "dtype": "f16"})["out"]
    assert zeros.shape == (2, 3) and zeros.dtype == np.float16 and not np.signbit(zeros).any()


# ------------------------------------------------------------------------------------- shapes
def test_shapes():
    x = np.arange(6, dtype=np.int32)
    assert call("shape:expand_dims", {"axis": 1}, x=x)["out"].shape == (6, 1)
    assert call("shape:expand_dims", {"axis": -2}, x=x)["out"].shape == (1, 6)
    column = x[:, None]
    assert call("shape:broadcast_to", {"shape": (6, 2)}, x=column)["out"].tolist() == [[i, i] for i in range(6)]
    with pytest.raises(OracleError, match="ranks must be equal"):
        call("shape:broadcast_to", {"shape": (2, 6)}, x=x)
    assert call("shape:reshape", {"shape": "2, 3"}, x=x)["out"].tolist() == [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(OracleError, match="reshape of 6"):
        call("shape:reshape", {"shape": 4}, x=x)
    assert call("shape:trans", x=x.reshape(2, 3))["out"].tolist() == [[0, 3], [1, 4], [2, 5]]
    cube = x.reshape(1, 2, 3)
    assert call("shape:trans", x=cube)["out"].shape == (1, 3, 2)
    assert call("shape:trans", {"order": (2, 0, 1)}, x=cube)["out"].shape == (3, 1, 2)


# ------------------------------------------------------------------------------------- memory
def test_load_fills_masked_lanes_with_other_or_leaves_them_open():
    x, mask = np.arange(4, dtype=np.int8), np.array([True, False, True, False])
    assert call("memory:load", {"other": 300}, x=x, mask=mask)["out"].tolist() == [0, 44, 2, 44]
    refs = call("memory:load", x=x, mask=mask)
    assert refs["out.unspecified"].tolist() == [False, True, False, True]
    assert call("memory:load", x=x)["out"].tolist() == [0, 1, 2, 3]
    wide = call("memory:load", {"other": 0}, x=x, mask=np.stack([mask, ~mask]))["out"]
    assert wide.tolist() == [[0, 0, 2, 0], [0, 1, 0, 3]]


def test_gather():
    x = np.array([[10, 20], [30, 40]], np.int32)
    index = np.array([[3, 0, 99], [1, 1, -1]])
    mask = np.array([[True, True, False], [True, True, False]])
    out = call("memory:gather", {"other": -1}, x=x, index=index, mask=mask)["out"]
    assert out.tolist() == [[40, 10, -1], [20, 20, -1]]
    with pytest.raises(OracleError, match=r"active index -1\.\.99 leaves an array of 4"):
        call("memory:gather", x=x, index=index)


def test_store_writes_below_n_and_nothing_else():
    x = np.arange(6, dtype=np.float32)
    refs = call("memory:store", {"n": 4}, x=x)
    assert refs["out.written"].tolist() == [True] * 4 + [False] * 2
    before = np.full(6, -7, np.float32)
    got = np.array([0, 1, 2, 3, -7, -7], np.float32)
    assert judge(got, refs, "out", Tolerance(), initial=before).ok
    assert not judge(x, refs, "out", Tolerance(), initial=before).ok
    even = np.arange(6) % 2 == 0
    assert call("memory:store", {"n": 4}, x=x, mask=even)["out.written"].tolist() == [True, False] * 2 + [False] * 2


def test_scatter_knows_conflicts():
    index = np.array([3, 0, 3, 5, 5])
    refs = call("memory:scatter", {"shape": (2, 4)}, x=np.array([1, 2, 9, 4, 4], np.int16), index=index)
    assert refs["out"].shape == (2, 4) and refs["out"].ravel()[[0, 5]].tolist() == [2, 4]
    assert np.flatnonzero(refs["out.written"]).tolist() == [0, 3, 5]
    assert np.flatnonzero(refs["out.unspecified"]).tolist() == [3]
    mask = np.array([True, True, False, True, True])
    refs = call("memory:scatter", {"shape": 8}, x=np.arange(5), index=index, mask=mask)
    assert np.flatnonzero(refs["out.unspecified"]).tolist() == [5] and refs["out"][3] == 0


# ------------------------------------------------------------------------------------- the registry
def test_lookup_suggests_a_near_name():
    with pytest.raises(OracleError, match=r"no oracle 'oracles\.nn:sofmax'.*oracles\.nn:softmax"):
        lookup("oracles.nn:sofmax")
    with pytest.raises(OracleError, match="the form is"):
        lookup("???")


def test_calls_are_checked():
    with pytest.raises(OracleError, match=r"oracles\.nn:softmax needs input 'x'; the case supplies: a, b"):
        lookup("oracles.nn:softmax")({"a": np.ones(1), "b": np.ones(1)}, {})
    with pytest.raises(OracleError, match=r"needs operand 'y'"):
        lookup("oracles.elementwise:add")({"x": np.ones(1)}, {})
    with pytest.raises(OracleError, match=r"needs parameter 'dtype'"):
        lookup("oracles.casts:cast")({"x": np.ones(1)}, {})
    with pytest.raises(OracleError, match="expected a NumPy array"):
        lookup("oracles.nn:softmax")({"x": [1.0]}, {})
    with pytest.raises(OracleError, match="no derived bound"):
        lookup("oracles.elementwise:add")({"x": np.ones(1), "y": np.ones(1)}, {}, xp=np)
    with pytest.raises(OracleError, match="at least one must be"):
        lookup("oracles.elementwise:add")({}, {"x": 1, "y": 2})


def test_every_oracle_is_documented_and_leaves_its_inputs_alone():
    assert len(oracles.names()) >= 70
    for name in oracles.names():
        assert lookup(name).name == name and len(lookup(name).__doc__ or "") >= 4
    x = np.arange(1, 5, dtype=np.float32)
    x.setflags(write=False)
    for name in oracles.names():
        # of other ranks; with tests of their own
        own = "integers" in name or name in ("oracles.boxes:load_box", "oracles.linalg:tf32_parts")
        if lookup(name).inputs == ("x",) and not lookup(name).operands and not own:
            lookup(name)(
                {"x": x},
                {
                    "axis": 0,
                    "dim": 0,
                    "k": 2,
                    "descending": False,
                    "shape": (4, 1) if "reshape" in name else (4,),
                    "dtype": "f32",
                    "order": (0,),
                    "extents": (4,),
                    "strides": (1,),
                    "offsets": (0,),
                    "block": (4,),
                },
            )


@pytest.mark.parametrize("fine_first", [False, True])
def test_parts_in_tf32_are_what_bits_say(fine_first):
    x = np.array([[1.0, -1.0 - 2.0**-12, 1.0 + 2.0**-11, 3.0e38, np.inf, np.nan, -0.0], [1.1, 2.2, 3.3, -4.4, 0, 6, 7]])
    x = x.astype(np.float32)
    out = call("linalg:tf32_parts", {"fine_first": fine_first, "padded": 9}, x=x)["out"]
    assert out.shape == (2, 3, 9) and not out[..., 7:].any()

    def rounded(v):  # half of the last bit that stays is added to the pattern, and the 13 below are cleared
        return ((v.view(np.uint32) + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)

    coarse = np.where(np.isfinite(x), rounded(x), x)
    with np.errstate(invalid="ignore"):
        fine = np.where(np.isfinite(x), rounded(x - coarse), np.float32(0))
    first, second = (1, 0) if fine_first else (0, 1)
    np.testing.assert_array_equal(out[:, first, :7], coarse)
    np.testing.assert_array_equal(out[:, second, :7], fine)
    np.testing.assert_array_equal(out[:, 2, :7], coarse)


def test_boxes():
    x = np.arange(12, dtype=np.int32)
    place = {"extents": [3, 3], "strides": [4, 1], "offsets": [-1, 1], "block": [3, 4]}
    out = call("memory:load_box", {**place, "padding": -5}, x=x)["out"]
    np.testing.assert_array_equal(out, [[-5] * 4, [1, 2, -5, -5], [5, 6, -5, -5]])
    refs = call("memory:store_box", {**place, "shape": [3, 4]}, x=np.arange(20, 32, dtype=np.int32))
    np.testing.assert_array_equal(refs["out.written"], [[False, True, True, False]] * 2 + [[False] * 4])
    np.testing.assert_array_equal(refs["out"][refs["out.written"]], [24, 25, 28, 29])
    with pytest.raises(OracleError, match="leaves"):
        call("memory:load_box", {**place, "extents": [4, 3], "offsets": [1, 0]}, x=x)
