"""What the interpreter reports: the kernel line, the array, the program and the index, and that arrays stay intact."""

import numpy as np
import pytest
from ir_kernels import kernel

from refcompiler import interpreter
from refcompiler.errors import LaunchError, RunError


def rejected(func, grid, args, id: str, *words: str, line: int | None = None) -> RunError:
    """Run, expect that error at that line with those words, and every array as it was."""
    before = {k: v.copy() for k, v in args.items() if isinstance(v, np.ndarray)}
    with pytest.raises(RunError) as caught:
        interpreter.run(func, grid, args)
    text = str(caught.value)
    assert caught.value.id == id, text
    for word in words:
        assert word in text, text
    if line is not None:
        assert text.startswith(f"k.ir:{line}:"), text
    for name, array in before.items():
        assert array.tobytes() == args[name].tobytes(), f"{name} was changed"
    return caught.value


COPY = """
  %0 = program_id {axis=0} : i32
  %1 = mul %0, 4 : i32
  %2 = arange {start=0, end=4} : vector<4 x i32>
  %3 = add %1, %2 : vector<4 x i32>
  %4 = cmp_lt %3, n : vector<4 x bool>
  %5 = addptr x, %3 : vector<4 x ptr<i32>>
  %6 = load %5, %4, none : vector<4 x i32>
  %7 = addptr y, %3 : vector<4 x ptr<i32>>
  store %7, %6, %4
"""


def copy_args(n: int, size: int) -> dict:
    return {"x": np.arange(n, dtype=np.int32), "y": np.full(size, 7, np.int32), "n": n}


def test_the_copy_kernel_itself_is_right():
    args = copy_args(11, 11)
    interpreter.run(kernel("x: ptr<i32>, y: ptr<i32>, n: i32", COPY), (3,), args)
    assert (args["y"] == np.arange(11)).all()


def test_store_out_of_bounds_after_good_stores_changes_nothing():
    func = kernel("x: ptr<i32>, y: ptr<i32>, n: i32", COPY)
    words = ("store to y[9]", "y has 9 elements", "program (2, 0, 0)", "element [1]")
    rejected(func, (3,), copy_args(11, 9), "memory.store#E7", *words, line=10)


def test_load_out_of_bounds_without_mask():
    func = kernel("x: ptr<i32>, y: ptr<i32>, n: i32", COPY.replace("load %5, %4, none", "load %5, none, none"))
    words = ("load of x[11]", "x has 11 elements", "program (2, 0, 0)", "element [3]", "mask")
    rejected(func, (3,), copy_args(11, 12), "memory.load#E7", *words, line=8)


def test_a_negative_index_is_out_of_bounds():
    func = kernel(
        "x: ptr<f32>, y: ptr<f32>",
        """
  %0 = addptr x, -1:i32 : ptr<f32>
  %1 = load %0, none, none : f32
  store y, %1, none
""",
    )
    args = {"x": np.zeros(3, np.float32), "y": np.zeros(1, np.float32)}
    rejected(func, (1,), args, "memory.load#E7", "load of x[-1]", "program (0, 0, 0)", line=3)


@pytest.mark.parametrize("size", [0, 1])
def test_empty_arrays_hold_nothing(size):
    func = kernel("x: ptr<f32>", "%0 = load x, none, none : f32\n  store x, %0, none")
    args = {"x": np.ones(size, np.float32)}
    if size:
        interpreter.run(func, (1,), args)
    else:
        rejected(func, (1,), args, "memory.load#E7", "x has 0 elements")


def test_masked_lanes_may_point_anywhere():
    func = kernel(
        "x: ptr<f32>, y: ptr<f32>",
        """
  %0 = arange {start=0, end=4} : vector<4 x i32>
  %1 = mul %0, 1000000 : vector<4 x i32>
  %2 = cmp_lt %0, 1 : vector<4 x bool>
  %3 = addptr x, %1 : vector<4 x ptr<f32>>
  %4 = load %3, %2, 5.0 : vector<4 x f32>
  %5 = addptr y, %0 : vector<4 x ptr<f32>>
  store %5, %4, none
  store %3, %4, %2
  %6 = load %3, False, 3.0 : vector<4 x f32>
  store %3, %6, False
""",
    )
    args = {"x": np.array([2.0], np.float32), "y": np.zeros(4, np.float32)}
    interpreter.run(func, (1,), args)
    assert args["y"].tolist() == [2, 5, 5, 5]


POISON_SOURCES = {
    "load": "%0 = arange {start=0, end=4} : vector<4 x i32>\n  %1 = cmp_lt %0, 3 : vector<4 x bool>\n"
    "  %2 = addptr x, %0 : vector<4 x ptr<i32>>\n  %3 = load %2, %1, none : vector<4 x i32>",
    "empty": "%0 = arange {start=0, end=4} : vector<4 x i32>\n  %1 = cmp_lt %0, 3 : vector<4 x bool>\n"
    "  %2 = empty : vector<4 x i32>\n  %3 = select %1, %0, %2 : vector<4 x i32>",
}
POISON_USES = {
    "store": ("memory.store#E8", "%5 = addptr x, %0 : vector<4 x ptr<i32>>\n  store %5, %4, none"),
    "reduce": ("reduce.reduce#E6", "%5 = reduce %4 {axis=0, combine='add'} : i32"),
    "load address": (
        "memory.load#E8",
        "%5 = addptr x, %4 : vector<4 x ptr<i32>>\n  %6 = load %5, none, none : vector<4 x i32>",
    ),
    "load mask": (
        "memory.load#E8",
        "%5 = cmp_lt %4, 0 : vector<4 x bool>\n  %6 = load %2x, %5, 0 : vector<4 x i32>",
    ),
    "store address": ("memory.store#E8", "%5 = addptr x, %4 : vector<4 x ptr<i32>>\n  store %5, 1, none"),
    "store mask": ("memory.store#E8", "%5 = cmp_lt %4, 0 : vector<4 x bool>\n  store %2x, 1, %5"),
    "assert": ("control.assert#E3", "%5 = cmp_lt %4, 100 : vector<4 x bool>\n  assert %5"),
}


@pytest.mark.parametrize("use", POISON_USES)
@pytest.mark.parametrize("source", POISON_SOURCES)
def test_poison_is_an_error_where_it_matters(source, use):
    id, text = POISON_USES[use]
    body = POISON_SOURCES[source] + "\n  %4 = mul %3, 1 : vector<4 x i32>\n"
    if "%2x" in text:
        body += "  %20 = addptr x, %0 : vector<4 x ptr<i32>>\n"
    body += "  " + text.replace("%2x", "%20")
    func = kernel("x: ptr<i32>", body)
    expected = "creation.empty#E1" if source == "empty" else id
    rejected(func, (2,), {"x": np.zeros(4, np.int32)}, expected, "program (0, 0, 0), element [3]", "made at k.ir:")


@pytest.mark.parametrize("source", POISON_SOURCES)
def test_poison_that_is_masked_off_or_replaced_is_no_error(source):
    func = kernel(
        "x: ptr<i32>",
        POISON_SOURCES[source]
        + """
  %4 = mul %3, 2 : vector<4 x i32>
  %5 = addptr x, %0 : vector<4 x ptr<i32>>
  store %5, %4, %1
  %6 = select %1, %4, 9 : vector<4 x i32>
  %7 = reduce %6 {axis=0, combine='add'} : i32
  %8 = addptr x, 3:i32 : ptr<i32>
  store %8, %7, none
""",
    )
    args = {"x": np.array([0, 1, 2, 3], np.int32)}
    interpreter.run(func, (1,), args)
    assert args["x"].tolist() == [0, 2, 4, 15]


def test_poison_in_a_loop_bound():
    func = kernel(
        "x: ptr<i32>",
        "%0 = load x, False, none : i32\n  for %1 in range(0, %0, 1) {\n    yield\n  }",
    )
    rejected(func, (1,), {"x": np.zeros(1, np.int32)}, "control.for_range#E8", "the stop of the loop", line=3)


def test_poison_carried_through_a_loop():
    func = kernel(
        "x: ptr<i32>",
        """
  %0 = empty : vector<4 x i32>
  %1 = for %2 in range(0, 3, 1) iter_args(%3 = %0) : vector<4 x i32> {
    %4 = add %3, 1 : vector<4 x i32>
    yield %4
  }
  %5 = reduce %1 {axis=0, combine='add'} : i32
""",
    )
    rejected(func, (1,), {"x": np.zeros(1, np.int32)}, "creation.empty#E1", "element [0]", line=7)


def test_read_only_arrays():
    args = copy_args(4, 4)
    args["y"].flags.writeable = False
    func = kernel("x: ptr<i32>, y: ptr<i32>, n: i32", COPY)
    rejected(func, (1,), args, "memory.store#E9", "store to y, which is read-only", line=10)
    args = copy_args(4, 4)
    args["x"].flags.writeable = False
    interpreter.run(func, (1,), args)  # reading is fine
    assert args["y"].tolist() == [0, 1, 2, 3]


def test_failed_assertions_say_the_message_and_the_program():
    func = kernel(
        "x: ptr<i32>",
        "%0 = program_id {axis=1} : i32\n  %1 = cmp_ne %0, 2 : bool\n  assert %1 {message='not two'}",
    )
    interpreter.run(func, (5, 2), {"x": np.zeros(1, np.int32)})
    words = ("assertion failed: not two", "program (0, 2, 0)")
    rejected(func, (5, 3), {"x": np.zeros(1, np.int32)}, "control.assert#E3", *words, line=4)


def test_a_step_of_zero():
    func = kernel("x: ptr<i32>, n: i32", "for %0 in range(0, 4, n) {\n    yield\n  }")
    rejected(func, (1,), {"x": np.zeros(1, np.int32), "n": 0}, "control.for_range#E3", "zero", line=2)


# --- conflicts between programs

WRITE_SAME = "%0 = program_id {axis=0} : i32\n  store x, 1, none"
WRITE_NEXT = """
  %0 = program_id {axis=0} : i32
  %1 = arange {start=0, end=4} : vector<4 x i32>
  %2 = mul %0, 3 : i32
  %3 = add %2, %1 : vector<4 x i32>
  %4 = addptr x, %3 : vector<4 x ptr<i32>>
  store %4, %3, none
"""
WRITE_NEXT_MASKED = WRITE_NEXT.replace("store %4, %3, none", "%5 = cmp_lt %3, 6 : vector<4 x bool>\n  store %4, %3, %5")
READ_NEXT = """
  %0 = program_id {axis=0} : i32
  %1 = addptr x, %0 : ptr<i32>
  %2 = addptr %1, 1:i32 : ptr<i32>
  %3 = load %2, none, none : i32
  store %1, %3, none
"""
WRITE_THEN_READ_NEXT = """
  %0 = program_id {axis=0} : i32
  %1 = addptr x, %0 : ptr<i32>
  store %1, %0, none
  %2 = addptr %1, 1:i32 : ptr<i32>
  %3 = cmp_lt %0, 1 : bool
  %4 = load %2, %3, 0 : i32
  store %1, %4, none
"""


@pytest.mark.parametrize(
    ("body", "grid", "words"),
    [
        (WRITE_SAME, (2,), ("writes x[0]", "program (0, 0, 0)", "program (1, 0, 0)")),
        (WRITE_NEXT, (3,), ("writes x[3]", "wrote")),
        (WRITE_NEXT_MASKED, (3,), ("writes x[3]", "wrote")),
        (READ_NEXT, (4,), ("writes x[1]", "program (0, 0, 0) read")),
        (WRITE_THEN_READ_NEXT, (2,), ("program (0, 0, 0) reads x[1], which program (1, 0, 0) wrote",)),
    ],
    ids=["same value", "overlap", "masked overlap", "write after read", "read after write"],
)
def test_conflicts_between_programs(body, grid, words):
    func = kernel("x: ptr<i32>", body)
    rejected(func, grid, {"x": np.zeros(16, np.int32)}, "memory.order#E1", *words)
    interpreter.run(func, (1,), {"x": np.zeros(16, np.int32)})  # one program has no conflict
    interpreter.run(func, grid, {"x": np.zeros(16, np.int32)}, check=False)


def test_conflicts_across_chunks(monkeypatch):
    monkeypatch.setattr("refcompiler.interpreter.launch.CHUNK_ELEMENTS", 1)
    for body, grid in ((WRITE_SAME, (2,)), (WRITE_NEXT, (3,)), (READ_NEXT, (4,))):
        rejected(kernel("x: ptr<i32>", body), grid, {"x": np.zeros(16, np.int32)}, "memory.order#E1")


@pytest.mark.parametrize("programs", [3, 70, 200])
def test_a_conflict_of_the_first_program_with_the_last(programs, monkeypatch):
    monkeypatch.setattr("refcompiler.interpreter.launch.CHUNK_ELEMENTS", 1)
    func = kernel(
        "x: ptr<i32>, n: i32",
        """
  %0 = program_id {axis=0} : i32
  %1 = rem %0, n : i32
  %2 = addptr x, %1 : ptr<i32>
  store %2, %0, none
""",
    )
    args = {"x": np.zeros(programs, np.int32)}
    words = (f"program ({programs - 1}, 0, 0) writes x[0], which program (0, 0, 0) wrote",)
    rejected(func, (programs,), {**args, "n": programs - 1}, "memory.order#E1", *words)
    interpreter.run(func, (programs,), {**args, "n": programs})
    assert (args["x"] == np.arange(programs)).all()


@pytest.mark.parametrize("chunk", [1, 1000])
@pytest.mark.parametrize(
    ("first", "second", "then", "words"),
    [
        ("load", "store", "load", "program (1, 0, 0) reads x[0], which program (0, 0, 0) wrote"),
        ("load", "load", "store", "program (1, 0, 0) writes x[0], which program (0, 0, 0) read"),
        ("store", "load", "store", "program (1, 0, 0) writes x[0], which program (0, 0, 0) wrote"),
    ],
)
def test_a_program_may_reuse_its_own_elements_but_no_other_may(first, second, then, words, chunk, monkeypatch):
    monkeypatch.setattr("refcompiler.interpreter.launch.CHUNK_ELEMENTS", chunk)
    kinds = {"load": "%{} = load {}, {}, 0 : i32", "store": "store {1}, 1, {2}"}
    func = kernel(
        "x: ptr<i32>",
        f"""
  %0 = program_id {{axis=0}} : i32
  %1 = addptr x, %0 : ptr<i32>
  {kinds[first].format(2, "%1", "True")}
  {kinds[second].format(3, "%1", "True")}
  %4 = cmp_eq %0, 1 : bool
  {kinds[then].format(5, "x", "%4")}
""",
    )
    rejected(func, (2,), {"x": np.zeros(2, np.int32)}, "memory.order#E1", words)
    interpreter.run(func, (1,), {"x": np.zeros(1, np.int32)})


@pytest.mark.parametrize("writer", range(4))
def test_a_reader_among_several_is_not_forgotten(writer):
    func = kernel(
        "x: ptr<i32>, writer: i32",
        """
  %0 = program_id {axis=0} : i32
  %1 = load x, none, none : i32
  %2 = cmp_eq %0, writer : bool
  store x, 5, %2
""",
    )
    args = {"x": np.zeros(1, np.int32), "writer": writer}
    words = (f"program ({writer}, 0, 0) writes x[0], which program", "read")
    rejected(func, (4,), args, "memory.order#E1", *words)


def test_overlapping_arguments_conflict_as_memory():
    func = kernel(
        "x: ptr<f32>, y: ptr<f32>",
        """
  %0 = program_id {axis=0} : i32
  %1 = addptr x, %0 : ptr<f32>
  %2 = load %1, none, none : f32
  %3 = addptr y, %0 : ptr<f32>
  store %3, %2, none
""",
    )
    memory = np.arange(8, dtype=np.float32)
    interpreter.run(func, (8,), {"x": memory, "y": memory})  # in place: each program has its own element
    rejected(func, (7,), {"x": memory[1:], "y": memory[:-1]}, "memory.order#E1", "writes y[1]", "read")
    interpreter.run(func, (4,), {"x": memory[4:], "y": memory[:4]})
    assert memory.tolist() == [4, 5, 6, 7, 4, 5, 6, 7]


def test_one_store_may_not_give_an_element_two_values():
    func = kernel(
        "x: ptr<i32>, n: i32",
        """
  %0 = arange {start=0, end=4} : vector<4 x i32>
  %1 = mul %0, n : vector<4 x i32>
  %2 = addptr x, %1 : vector<4 x ptr<i32>>
  store %2, %0, none
""",
    )
    args = {"x": np.zeros(16, np.int32)}
    rejected(func, (1,), {**args, "n": 0}, "memory.store#E10", "gives x[0] two different values", line=5)
    interpreter.run(func, (1,), {**args, "n": 5})
    assert args["x"][::5].tolist() == [0, 1, 2, 3]


# --- arguments

ARGS = {"x": np.zeros(4, np.int32), "y": np.zeros(4, np.int32), "n": 4}


@pytest.mark.parametrize(
    ("change", "grid", "id", "shown"),
    [
        ({}, (-1,), "program.grid#E2", "not negative"),
        ({}, (1, 1, 1, 1), "program.grid#E1", "one to three"),
        ({"z": 1}, (1,), "program.arguments#E1", "takes no z"),
        ({"x": None}, (1,), "program.arguments#E2", "x needs a NumPy array, got NoneType"),
        ({"x": np.zeros(4, np.int64)}, (1,), "program.arguments#E8", "int64"),
        ({"x": np.zeros(8, np.int32)[::2]}, (1,), "launch.contiguous", "not contiguous"),
        ({"n": "four"}, (1,), "program.arguments#E2", "n needs a number, got str"),
    ],
)
def test_arguments_that_do_not_fit(change, grid, id, shown):
    func = kernel("x: ptr<i32>, y: ptr<i32>, n: i32", COPY)
    with pytest.raises(LaunchError) as caught:
        interpreter.run(func, grid, {**ARGS, **change})
    assert caught.value.id == id
    assert shown in str(caught.value)


def test_a_missing_argument():
    func = kernel("x: ptr<i32>, y: ptr<i32>, n: i32", COPY)
    with pytest.raises(LaunchError, match="needs x, n"):
        interpreter.run(func, (1,), {"y": ARGS["y"]})
