"""The toolchain without a GPU: CUDA C++ and PTX to cubin for four architectures, SASS, resources, clear errors."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from refcompiler import toolchain
from refcompiler.errors import CompileError, InternalError
from refcompiler.toolchain.sass import check_descriptors

ARCHS = ("sm_80", "sm_89", "sm_90a", "sm_100a")

KERNELS = """
extern "C" __global__ void __launch_bounds__(128) copy4(const float4* x, float4* y) { y[threadIdx.x] = x[threadIdx.x]; }
extern "C" __global__ void copy1(const float* x, float* y) { y[threadIdx.x] = x[threadIdx.x]; }
extern "C" __global__ void turn(float* x) {
    __shared__ float s[100];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = s[threadIdx.x ^ 1];
}
extern "C" __global__ void turn_dynamic(float* x) {
    extern __shared__ float s[];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = s[threadIdx.x ^ 1];
}
"""

# Keeps 48 values alive across 48 rounds: far more than 32 registers hold.
SPILLS = """
extern "C" __global__ void __launch_bounds__(1024) spills(float* x, int n) {
    float a[48];
    #pragma unroll
    for (int i = 0; i < 48; i++) a[i] = x[i * n + threadIdx.x];
    #pragma unroll
    for (int k = 0; k < 48; k++) {
        float s = 0;
        #pragma unroll
        for (int i = 0; i < 48; i++) s += a[i] * a[(i * k + 3) % 48];
        x[k * n + threadIdx.x] = s;
    }
}
"""

MULTIPLY_ADD = 'extern "C" __global__ void f(float* x) { x[0] = x[1] * x[2] + x[3]; }'

MULTIPLY_ADD_PTX = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry f(.param .u64 p) {
    .reg .f32 %f<6>;
    .reg .u64 %d<3>;
    ld.param.u64 %d1, [p];
    cvta.to.global.u64 %d2, %d1;
    ld.global.f32 %f1, [%d2];
    ld.global.f32 %f2, [%d2+4];
    ld.global.f32 %f3, [%d2+8];
    mul.f32 %f4, %f1, %f2;
    add.f32 %f5, %f4, %f3;
    st.global.f32 [%d2], %f5;
    ret;
}
"""


@pytest.fixture
def reproducers(tmp_path, monkeypatch):
    monkeypatch.setenv("TILESPEC_CACHE_DIR", str(tmp_path))
    return tmp_path / "reproducers"


@pytest.mark.parametrize("arch", ARCHS)
def test_resources_agree_with_ptxas(arch):
    made = toolchain.compile_cuda(KERNELS, arch, ["--ptxas-options=-v"])
    for entry, threads in {"copy4": 128, "copy1": None, "turn": None, "turn_dynamic": None}.items():
        said = made.log.split(f"entry function '{entry}'")[1].split("Compiling")[0]
        smem = re.search(r"(\d+) bytes smem", said)
        assert toolchain.resources(made.cubin, entry) == {
            "regs": int(re.search(r"Used (\d+) registers", said)[1]),
            "smem": int(smem[1]) if smem else 0,
            "stack": int(re.search(r"(\d+) bytes stack frame", said)[1]),
            "spill_bytes": 0,
            "threads": threads,
        }
    assert toolchain.resources(made.cubin, "turn")["smem"] == 400


@pytest.mark.parametrize("arch", ARCHS)
def test_spill_bytes_are_ptxas_spill_stores_and_loads(arch):
    made = toolchain.compile_cuda(SPILLS, arch, ["--ptxas-options=-v"])
    stores, loads = (int(n) for n in re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", made.log).groups())
    found = toolchain.resources(made.cubin, "spills")
    assert found["spill_bytes"] == stores + loads > 0
    assert found["stack"] == int(re.search(r"(\d+) bytes stack frame", made.log)[1]) > 0


@pytest.mark.parametrize("arch", ARCHS)
def test_instruction_mix_knows_widths_and_functions(arch):
    sass = toolchain.disassemble(toolchain.cuda_to_cubin(KERNELS, arch))
    wide, narrow = toolchain.instruction_mix(sass, "copy4"), toolchain.instruction_mix(sass, "copy1")
    assert (wide["LDG"], wide["LDG.128"], wide["LDG.32"]) == (1, 1, 0)
    assert (narrow["STG"], narrow["STG.128"], narrow["STG.32"]) == (1, 0, 1)
    assert toolchain.instruction_mix(sass, "turn")["BAR"] == 1
    assert toolchain.instruction_mix(sass)["LDG"] == 4
    assert toolchain.instructions(sass, "copy1")[-1] == "BRA"  # the trap loop; the padding after it is left out


def test_descriptors_begin_at_even_registers():
    check_descriptors(
        "/*0100*/ LDG.E.EL.128 R8, desc[UR4][R2.64] ;\n/*0110*/ LDGSTS.E.128 [R5], desc[UR10][R4.64], P1 ;"
    )
    with pytest.raises(InternalError, match=r"refuses: .*desc\[UR1\]"):
        check_descriptors("/*0380*/ LDGSTS.E.BYPASS.128 [R27+UR0], desc[UR1][R20.64], P4 ;")


def test_predicated_instructions_are_counted():
    sass = """
        .section .text.k,"ax",@progbits
        /*0000*/              @!P0 LDG.E.64.CONSTANT R2, desc[UR6][R2.64] ;
        /*0010*/             @!UPT UIADD3 UR4, URZ, URZ, URZ ;
        /*0020*/              @PT MUFU.EX2 R1, R2 ;
        /*0030*/                   EXIT ;
        /*0040*/                   NOP;
    """
    assert toolchain.instructions(sass) == ["LDG.E.64.CONSTANT", "UIADD3", "MUFU.EX2", "EXIT"]
    mix = toolchain.instruction_mix(sass)
    assert (mix["LDG.64"], mix["LDG.CONSTANT"], mix["LDG.32"], mix["MUFU.EX2"]) == (1, 1, 0, 1)


@pytest.mark.parametrize("arch", ARCHS)
def test_multiply_and_add_are_never_contracted(arch):
    for cubin in (toolchain.cuda_to_cubin(MULTIPLY_ADD, arch), toolchain.ptx_to_cubin(MULTIPLY_ADD_PTX, arch)):
        mix = toolchain.instruction_mix(toolchain.disassemble(cubin))
        assert (mix["FMUL"], mix["FADD"], mix["FFMA"]) == (1, 1, 0)


def test_contraction_would_happen_without_the_options():
    cubin = toolchain.cuda_to_cubin(MULTIPLY_ADD, "sm_90a", ["--fmad=true"])
    assert toolchain.instruction_mix(toolchain.disassemble(cubin))["FFMA"] == 1


def test_ptx_is_of_the_architecture_and_links_to_equivalent_code():
    ptx = toolchain.cuda_to_ptx(KERNELS, "sm_90a")
    assert ".target sm_90a" in ptx and ".entry copy4" in ptx and "\0" not in ptx
    linked = toolchain.disassemble(toolchain.ptx_to_cubin(ptx, "sm_90a"))
    direct = toolchain.disassemble(toolchain.cuda_to_cubin(KERNELS, "sm_90a"))
    for entry in ("copy4", "copy1", "turn", "turn_dynamic"):
        mixes = [toolchain.instruction_mix(sass, entry) for sass in (linked, direct)]
        effects = [
            {key: n for key, n in mix.items() if key[:3] in ("LDG", "STG", "LDS", "STS", "BAR")} for mix in mixes
        ]
        assert effects[0] == effects[1] != {}


def test_line_numbers_on_request_only():
    assert ".loc" not in toolchain.cuda_to_ptx(MULTIPLY_ADD, "sm_90a")
    assert ".loc" in toolchain.cuda_to_ptx(MULTIPLY_ADD, "sm_90a", lineinfo=True)


@pytest.mark.parametrize("arch", ["sm_42", "90", "sm_90b", "compute_90", "gfx942", ""])
def test_an_unknown_architecture_is_the_callers_error(arch):
    with pytest.raises(CompileError, match="sm_90") as caught:
        toolchain.cuda_to_cubin(MULTIPLY_ADD, arch)
    assert caught.value.id == "toolchain.arch" and repr(arch) in str(caught.value)
    with pytest.raises(CompileError):
        toolchain.ptx_to_cubin(MULTIPLY_ADD_PTX, arch)


def test_rejected_cuda_leaves_a_reproducer(reproducers):
    source = 'extern "C" __global__ void f(float* x) { x[0] = missing; }\n'
    with pytest.raises(InternalError, match='identifier "missing" is undefined') as caught:
        toolchain.cuda_to_cubin(source, "sm_90a")
    (path,) = reproducers.iterdir()
    assert str(path) in str(caught.value)
    text = path.read_text()
    assert text.endswith(source) and "--gpu-architecture=sm_90a" in text
    # Compiling the reproducer gives the same error.
    with pytest.raises(InternalError, match='identifier "missing" is undefined'):
        toolchain.cuda_to_cubin(text, "sm_90a")


def test_rejected_ptx_leaves_a_reproducer(reproducers):
    with pytest.raises(InternalError, match="nonsense") as caught:
        toolchain.ptx_to_cubin(MULTIPLY_ADD_PTX.replace("mul.f32", "nonsense.f32"), "sm_90a")
    (path,) = reproducers.iterdir()
    assert path.suffix == ".ptx" and str(path) in str(caught.value)


def test_an_unwritable_cache_folder_does_not_hide_the_error(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TILESPEC_CACHE_DIR", str(tmp_path / "file"))
    with pytest.raises(InternalError, match="no reproducer was written") as caught:
        toolchain.cuda_to_cubin("nonsense", "sm_90a")
    assert "rejects the generated code" in str(caught.value)


def test_unknown_entry_and_bytes_that_are_no_cubin():
    cubin = toolchain.cuda_to_cubin(MULTIPLY_ADD, "sm_90a")
    with pytest.raises(InternalError, match="no kernel 'g'"):
        toolchain.resources(cubin, "g")
    with pytest.raises(InternalError, match="not a cubin"):
        toolchain.resources(b"hello", "f")
    with pytest.raises(InternalError, match="nvdisasm rejects"):
        toolchain.disassemble(b"hello")


def test_versions_name_every_part():
    assert set(toolchain.versions()) == {"bindings", "nvrtc", "nvjitlink", "nvdisasm", "ptxas", "mlir"}
    assert all(re.match(r"\d+\.\d+", version) for version in toolchain.versions().values())
    assert all(version in toolchain.fingerprint() for version in toolchain.versions().values())


def test_a_missing_disassembler_says_what_to_install(monkeypatch, tmp_path):
    from refcompiler.toolchain import installed

    monkeypatch.setattr(installed, "_wheel_files", lambda wheel: [])
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CUDA_HOME", raising=False)
    with pytest.raises(toolchain.ToolUnavailable, match="pip install nvidia-cuda-nvdisasm"):
        installed.nvdisasm.__wrapped__()
    tool = tmp_path / "bin" / "nvdisasm"
    tool.parent.mkdir()
    tool.write_text("")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert installed.nvdisasm.__wrapped__() == tool


REGISTERS = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k()
.maxntid 128, 1, 1
.minnctapersm 1
{
  setmaxnreg.dec.sync.aligned.u32 40;
  ret;
}
"""


def test_registers_are_given_back_where_ptxas_is_installed(monkeypatch):
    from refcompiler.toolchain import installed, nvrtc

    assert "USETMAXREG" in toolchain.disassemble(toolchain.ptx_to_cubin(REGISTERS, "sm_90a"))
    with pytest.raises(InternalError, match="ptxas rejects"):
        toolchain.ptx_to_cubin(REGISTERS.replace("ret;", "rot;"), "sm_90a")

    def missing(ptx, arch):
        raise installed.unavailable("ptxas", "nowhere")

    monkeypatch.setattr(nvrtc, "assemble", missing)
    assert "USETMAXREG" not in toolchain.disassemble(toolchain.ptx_to_cubin(REGISTERS, "sm_90a"))


def test_importing_loads_no_compiler():
    heavy = "[m for m in sys.modules if m.startswith(('cuda.bindings', 'elftools'))]"
    code = f"import sys, refcompiler.toolchain; print({heavy})"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout == "[]\n"


def test_compilation_is_deterministic_in_text():
    code = (
        "import sys; from refcompiler import toolchain as t; a = t.compile_cuda(sys.stdin.read(), 'sm_90a'); "
        "print(a.ptx, t.disassemble(a.cubin))"
    )
    runs = {
        subprocess.run([sys.executable, "-c", code], input=KERNELS, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    }
    assert len(runs) == 1


def test_compiling_leaves_the_shared_one_byte_strings_alone():
    assert toolchain.compile_cuda(KERNELS, "sm_90a").log == ""  # a log of one byte: its terminator
    assert [value for value in range(256) if bytes([value])[0] != value] == []
