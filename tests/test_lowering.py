"""What lowering must leave: text that parses back, few barriers, placed buffers, coalesced layouts, no local memory."""

import subprocess
import sys
from pathlib import Path

import pytest
import simt_kernels as k
from compiled import compile_func, compile_kernel

from refcompiler import toolchain
from refcompiler.errors import CompileError
from refcompiler.ir import print_func
from refcompiler.ir.parser import parse_func
from refcompiler.kernels.rms_norm import rms_norm_rows_kernel
from refcompiler.passes.allocate_shared import allocate_shared
from refcompiler.passes.insert_barriers import insert_barriers
from refcompiler.pipeline import Context
from refcompiler.target import TARGETS

ROWS = "x:*f32,out:*f32,M:i32,N:i32"
KERNELS = {
    "add": (k.add_vectors, "x:*f32:16,y:*f32:16,out:*f32:16,n:i32:16", {"BLOCK": 1024}),
    "add_unaligned": (k.add_vectors, "x:*f16,y:*f16,out:*f16,n:i32", {"BLOCK": 1024}),
    "add_rows": (k.add_rows, "x:*f32,out:*f32,M:i32,N:i32,sx:i32,so:i32", {"BM": 16, "BN": 64}),
    "transpose": (k.transpose, ROWS, {"BM": 32, "BN": 32}),
    "softmax": (k.softmax, ROWS, {"BM": 16, "BN": 64}),
    "row_softmax": (k.online_softmax, "x:*f32,out:*f32,n:i32", {"BLOCK": 1024}),
    "matmul": (k.matmul, "a:*f32,b:*f32,c:*f32,M:i32,N:i32,K:i32", {"BM": 16, "BN": 16, "BK": 16}),
    "argmax": (k.argmax_rows, "x:*f32,out:*f32,index:*i32", {"M": 32, "N": 32}),
    "total": (k.total, "x:*f32,out:*f32", {"BLOCK": 4096}),
    "total_integers": (k.total, "x:*i32,out:*i32", {"BLOCK": 4096}),
    "reverse": (k.reverse_in_place, "x:*f32", {"N": 256}),
    "read_after_write": (k.read_after_write, "x:*i32,out:*i32", {"N": 256}),
    "rotate": (k.rotate_in_loop, "x:*i32,n:i32", {"N": 256}),
    "scale": (k.scale_in_loop, "x:*f32,n:i32", {"N": 256}),
    "scalars": (k.scalar_accesses, "x:*f32,out:*f32,n:i32", {}),
    "swap": (k.swap_carried, "x:*f32,out:*f32,n:i32", {"N": 256}),
}


def compiled(name: str, **options):
    kernel, signature, constexprs = KERNELS[name]
    return compile_kernel(kernel, signature, **constexprs, **options)


@pytest.mark.parametrize("name", KERNELS)
def test_every_level_prints_and_parses_back(name):
    stages = compiled(name)
    for func in (stages.laid_out, stages.simt):
        text = print_func(func)
        assert print_func(parse_func(text)) == text


def test_text_depends_on_nothing_but_the_kernel():
    tests = Path(__file__).parent
    script = (
        f"import sys; sys.path[:0] = [{str(tests)!r}, {str(tests.parent)!r}]\n"
        "from test_lowering import KERNELS, compiled\n"
        "print([compiled(n).cuda + str(compiled(n).simt) for n in ('matmul', 'argmax', 'softmax')])"
    )
    runs = [
        subprocess.run([sys.executable, "-c", script], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True)
        for seed in ("1", "2")
    ]
    assert runs[0].stdout == runs[1].stdout


@pytest.mark.parametrize(
    ("name", "barriers"),
    [
        ("add", 0),
        ("add_unaligned", 0),
        ("softmax", 0),  # rows stay within a warp
        ("transpose", 1),
        ("total", 1),  # that of the exchange also lets no store of out overtake a load of x
        ("reverse", 1),
        ("read_after_write", 2),  # the second one: out may be x, and is written at other offsets than x is read
        ("rotate", 2),  # read before write, write before the next iteration's read
        ("scale", 0),  # each thread reads back what it wrote itself
        ("swap", 0),  # what is stored at an offset was loaded there by the same thread
        ("scalars", 3),  # all threads load, one stores: around both; another round is at another element
    ],
)
def test_barriers_stand_where_threads_meet(name, barriers):
    assert sum(op.name == "barrier" for op in compiled(name).simt.walk()) == barriers


@pytest.mark.parametrize("name", ["softmax", "total", "argmax"])
def test_one_warp_needs_no_block_barrier(name):
    assert "__syncthreads" not in compiled(name, num_warps=1).cuda


def simt(body: str, attrs: str = "num_warps=4, threads=128"):
    return parse_func(f"simt func @k(x: ptr<f32>, y: ptr<f32>, n: i32) {{{attrs}}} {{\n{body}}}\n")


BUFFERS = """\
  %0 = thread_id : i32
  %1 = ld_global x, none, none {replicated=True} : f32
  %2 = shared_alloc : shared<1024 x f32>
  st_shared %2, %0, %1, none
  %3 = ld_shared %2, 0 : f32
  %4 = shared_alloc : shared<512 x f32>
  st_shared %4, %0, %3, none
  %5 = ld_shared %4, 0 : f32
  %6 = shared_alloc : shared<4 x f32>
  st_shared %6, 0, %5, none
  %7 = ld_shared %6, 0 : f32
  %8 = shared_alloc : shared<4 x f32>
  st_shared %8, 0, %7, none
  %9 = ld_shared %8, 0 : f32
  st_global y, %9, none
"""


def test_dead_buffers_are_reused_if_that_pays():
    func = simt(BUFFERS)
    allocate_shared(func, Context(target=TARGETS["sm_90a"]))
    offsets = [op.offset for op in func.walk() if op.name == "shared_alloc"]
    assert offsets == [0, 0, 4096, 4112]
    assert func.attrs["shared_bytes"] == 4128
    insert_barriers(func)
    names = [op.name for op in func.walk()]
    assert names.count("barrier") == 5  # one per exchange, one before bytes are used again
    assert names[names.index("st_shared", names.index("st_shared") + 1) - 1] == "barrier"  # bytes 0 to 2048 again


def test_many_small_buffers_are_reused():
    exchange = (
        "  %{0} = shared_alloc : shared<256 x f32>\n  st_shared %{0}, 0, 1.0, none\n  %{1} = ld_shared %{0}, 0 : f32\n"
    )
    for count, total in ((16, 16384), (17, 1024)):
        func = simt("".join(exchange.format(2 * k, 2 * k + 1) for k in range(count)))
        allocate_shared(func, Context(target=TARGETS["sm_90a"]))
        assert func.attrs["shared_bytes"] == total
        insert_barriers(func)
        assert [op.name for op in func.walk()].count("barrier") == count * (1 if total > 1024 else 2) - (total == 1024)


def test_a_buffer_that_outlives_a_loop_keeps_its_bytes():
    func = simt(
        "  %0 = shared_alloc : shared<1024 x f32>\n"
        "  st_shared %0, 0, 1.0, none\n"
        "  for %1 in range(0, n, 1) {\n"
        "    %2 = ld_shared %0, %1 : f32\n"
        "    %3 = shared_alloc : shared<1024 x f32>\n"
        "    st_shared %3, 0, %2, none\n"
        "    %4 = ld_shared %3, 0 : f32\n"
        "    st_global x, %4, none\n"
        "    yield\n"
        "  }\n"
    )
    allocate_shared(func, Context(target=TARGETS["sm_90a"]))
    assert [op.offset for op in func.walk() if op.name == "shared_alloc"] == [0, 4096]
    insert_barriers(func)
    body = [op.name for op in next(op for op in func.walk() if op.name == "for").body.ops]
    # the first one also keeps the store from overtaking the last iteration's load; the second is the exchange's
    assert body == [
        "barrier", "ld_shared", "shared_alloc", "st_shared", "barrier", "ld_shared", "st_global", "yield"
    ]  # fmt: skip


def test_what_a_loop_only_reads_takes_a_barrier_before_it():
    func = simt(
        "  %0 = shared_alloc : shared<1024 x f32>\n"
        "  st_shared %0, 0, 1.0, none\n"
        "  for %1 in range(0, n, 1) {\n"
        "    %2 = ld_shared %0, %1 : f32\n"
        "    st_global x, %2, none\n"
        "    yield\n"
        "  }\n"
        "  st_shared %0, 0, 2.0, none\n"
    )
    allocate_shared(func, Context(target=TARGETS["sm_90a"]))
    insert_barriers(func)
    names = [op.name for op in func.body.ops]
    assert names == ["shared_alloc", "st_shared", "barrier", "for", "barrier", "st_shared"]
    body = next(op for op in func.walk() if op.name == "for").body
    assert "barrier" not in [op.name for op in body.ops]


def test_too_much_shared_memory_is_one_error():
    func = simt("  %0 = shared_alloc : shared<65536 x f32>\n  st_shared %0, 0, 1.0, none\n")
    with pytest.raises(CompileError, match=r"target.shared_memory.*262144 bytes"):
        allocate_shared(func, Context(target=TARGETS["sm_90a"]))


@pytest.mark.parametrize(
    ("pointers", "barriers"),
    [
        ("%p = addptr x, %0 : ptr<f32>\n  %q = addptr y, %0 : ptr<f32>", 0),  # one element per thread in both
        ("%p = addptr x, %0 : ptr<f32>\n  %q = addptr x, %1 : ptr<f32>", 1),
        ("%p = addptr x, %0 : ptr<f32>\n  %q = addptr y, %1 : ptr<f32>", 1),
        ("%p = addptr x, %0 : ptr<f32>\n  %q = addptr x, %2 : ptr<f32>", 0),  # 0 to 127 and 128 to 255
        ("%p = addptr x, n : ptr<f32>\n  %q = addptr x, %2 : ptr<f32>", 1),
    ],
)
def test_global_accesses_are_kept_apart_only_if_they_may_meet(pointers, barriers):
    func = simt(
        "  %0 = thread_id : i32\n  %1 = xor %0, 1 : i32\n  %2 = add %0, 128 : i32\n"
        f"  {pointers}\n  %v = ld_global %p, none, none : f32\n  st_global %q, %v, none\n"
    )
    insert_barriers(func)
    assert sum(op.name == "barrier" for op in func.walk()) == barriers


def test_noalias_needs_barriers_within_one_parameter_only():
    body = (
        "  %0 = thread_id : i32\n  %1 = xor %0, 1 : i32\n  %2 = addptr x, %0 : ptr<f32>\n"
        "  %3 = addptr {}, %1 : ptr<f32>\n  %4 = ld_global %2, none, none : f32\n  st_global %3, %4, none\n"
    )
    for parameter, barriers in (("x", 1), ("y", 0)):
        func = simt(body.format(parameter), "num_warps=4, threads=128, noalias=True")
        insert_barriers(func)
        assert sum(op.name == "barrier" for op in func.walk()) == barriers


def test_accesses_are_wide_and_coalesced():
    loads = [op for op in compiled("add").simt.walk() if op.name == "ld_global"]
    assert [op.width for op in loads] == [4, 4]
    layout = next(op.result.type.layout for op in compiled("add").laid_out.walk() if op.name == "load")
    assert [layout(lane=1), layout(lane=31), layout(warp=1)] == [(4,), (124,), (128,)]


def test_a_transposed_store_is_converted_and_coalesced():
    func = compiled("transpose").laid_out
    store = next(op for op in func.walk() if op.name == "store")
    assert store.pointer.type.layout(lane=1) == (1, 0)
    assert [op.name for op in func.walk()].count("convert_layout") == 1


def test_loop_carried_blocks_keep_one_layout():
    func = compiled("matmul").laid_out
    loop = next(op for op in func.walk() if op.name == "for")
    for arg, init, value in zip(loop.body.args[1:], loop.inits, loop.body.terminator.operands, strict=True):
        assert arg.type == init.type == value.type


def test_the_empty_kernel_compiles():
    stages = compile_func(parse_func("func @nothing() {\n}\n"))
    assert "nothing() {\n}" in stages.cuda.replace("\n\n", "\n")


@pytest.mark.parametrize("arch", ["sm_80", "sm_89", "sm_90a", "sm_100a"])
def test_kernels_use_neither_stack_nor_local_memory(arch):
    try:
        toolchain.versions()
        toolchain.cuda_to_cubin('extern "C" __global__ void k() {}', arch)
    except toolchain.ToolUnavailable as reason:
        pytest.skip(str(reason))
    for name in KERNELS if arch == "sm_90a" else ("add", "softmax", "matmul"):
        stages = compiled(name)
        made = toolchain.compile_cuda(stages.cuda, arch)
        resources = toolchain.resources(made.cubin, stages.simt.name)
        assert (resources["stack"], resources["spill_bytes"]) == (0, 0), name
        assert made.log == "", name


def test_clusters_meet_once_while_first_rows_are_on_their_way():
    """Not where they start, when nothing has been read yet; what their weights need is ordered there too."""
    signature = "x:*f32:16,weight:*f32:16,out:*f32:16,rows:i32,epsilon:f32"
    values = {"BLOCK": 32768, "HELD": True, "stride": 32768, "n": 32768}
    kernel = rms_norm_rows_kernel.compile(signature, values, "sm_90a", "simt", num_warps=4, num_stages=2, num_ctas=8)
    body = [op.name for op in kernel.level("simt").body.ops]
    assert [op.name for op in kernel.level("simt").walk() if op.name == "cluster_barrier"] == ["cluster_barrier"]
    assert body.index("cp_async") < body.index("cluster_barrier") < body.index("for")
