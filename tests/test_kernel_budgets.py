"""Each mechanism behind the speed of the library's kernels, turned off: the budgets of the kernel library notice."""

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from conformance.cli import main
from refcompiler import clear_cache
from refcompiler.analysis import warp_roles
from refcompiler.analysis.axis import AxisAnalysis
from refcompiler.analysis.ranges import Ranges
from refcompiler.emitters.cuda import text
from refcompiler.emitters.mlir import asynchronous, memory
from refcompiler.ir.rewriter import Rewriter
from refcompiler.layouts import matrices
from refcompiler.lowering import elementwise, exchange, rings
from refcompiler.passes import flush_exp2, share_addresses, specialize_warps
from refcompiler.passes.insert_barriers import _Barriers

SPEC = Path(__file__).parents[1] / "spec"


def one_element_an_access(monkeypatch):
    monkeypatch.setattr(AxisAnalysis, "vector_width", lambda *_: 1)


def a_comparison_an_element(monkeypatch):
    monkeypatch.setattr(elementwise, "_equal_registers", lambda *_: (1, ()))


def stores_left_to_the_compiler(monkeypatch):
    monkeypatch.setattr(text, "access_function", lambda op: None)


def barriers_between_rounds(monkeypatch):
    monkeypatch.setattr(_Barriers, "apart_in_rounds", lambda *_: False)


def no_warp_fetches_ahead(monkeypatch):
    monkeypatch.setattr(specialize_warps, "plan_roles", lambda *_: None)


def results_stored_by_threads(monkeypatch):
    monkeypatch.setattr(warp_roles._Planner, "is_bulk", lambda *_: False)


def results_without_matrices(monkeypatch):
    monkeypatch.setattr(matrices, "matrix_access", lambda *_: None)
    monkeypatch.setattr(exchange, "matrix_exchange", lambda *_, **__: None)  # it remembers plans


def nothing_copied_ahead(monkeypatch):
    monkeypatch.setenv("TILESPEC_WITHOUT_PASSES", "copy_ahead")


def addresses_of_their_own(monkeypatch):
    monkeypatch.setattr(share_addresses, "_parts", lambda *_: None)


def addresses_known_to_llvm(monkeypatch):
    for module in (memory, asynchronous):
        monkeypatch.setattr(module, "distances", lambda *_: None)


def exponentials_with_subnormal_results(monkeypatch):
    monkeypatch.setattr(flush_exp2, "Rewriter", lambda *_, **__: Rewriter(()))


def grids_one_after_the_other(monkeypatch):
    monkeypatch.setattr(rings, "wait_for_grids", lambda *_: None)


def maps_when_they_are_used(monkeypatch):
    monkeypatch.setattr(rings, "prefetch_maps", lambda *_: None)


def loops_over_trips(monkeypatch):
    monkeypatch.setattr(Ranges, "can_count_wider", lambda *_: False)


MECHANISMS = [
    # what is turned off, the budget that notices, and what it says
    (one_element_an_access, "kernels.layer_norm/vectors:*", "cuda", "LDG.E.128"),
    (one_element_an_access, "kernels.softmax/vectors_mlir:*", "mlir", "LDG.E.128"),
    (a_comparison_an_element, "kernels.layer_norm/vectors:*", "cuda", "ISETP"),
    (stores_left_to_the_compiler, "kernels.transpose/vectors:*", "cuda", "STG.E.128"),
    (nothing_copied_ahead, "kernels.softmax/looped:*", "cuda", "LDGSTS"),
    (addresses_of_their_own, "kernels.softmax/addresses:*", "cuda", "LEA"),
    (addresses_known_to_llvm, "kernels.rms_norm/registers_mlir:*", "mlir", "regs"),
    (nothing_copied_ahead, "kernels.layer_norm/looped_mlir:*", "mlir", "LDGSTS"),
    (no_warp_fetches_ahead, "kernels.matmul/narrow:*", "cuda", "HGMMA"),
    (no_warp_fetches_ahead, "kernels.attention/warpgroups:*", "mlir", "spill_bytes"),
    (results_stored_by_threads, "kernels.matmul/warpgroups:*", "cuda", "UTMASTG"),
    (results_without_matrices, "kernels.matmul/warpgroups:*", "cuda", "STSM"),
    (grids_one_after_the_other, "kernels.matmul/warpgroups:*", "cuda", "ACQBULK"),
    (maps_when_they_are_used, "kernels.matmul/warpgroups:*", "cuda", "UTMACCTL"),
    (loops_over_trips, "kernels.matmul/warpgroups:*", "cuda", "MUFU"),
    (results_without_matrices, "kernels.attention/warpgroups:*", "cuda", "STSM"),
    (exponentials_with_subnormal_results, "kernels.attention/warpgroups:*", "cuda", "FSETP"),
    (barriers_between_rounds, "kernels.softmax/long_barriers:*", "simt", "barriers"),
]


def run(select, target, monkeypatch, folder):
    """Check selected budgets of one feature, with no machine code from other runs."""
    features = folder / "features" / "kernels"
    features.mkdir(parents=True)
    shutil.copy(SPEC / "features" / "kernels" / f"{select.partition('/')[0].removeprefix('kernels.')}.yaml", features)
    shutil.copytree(SPEC / "features" / "linalg", folder / "features" / "linalg")  # whose clauses products name
    monkeypatch.setenv("TILESPEC_CACHE_DIR", str(folder / "cache"))
    clear_cache(disk=False)
    return CliRunner().invoke(main, ["run", select, "--target", target, "-n", "1", "--spec", str(folder)])


@pytest.mark.parametrize(("mechanism", "select", "target", "said"), MECHANISMS)
def test_a_budget_notices_that_a_mechanism_is_off(monkeypatch, tmp_path, mechanism, select, target, said):
    assert run(select, target, monkeypatch, tmp_path / "on").exit_code == 0
    mechanism(monkeypatch)
    done = run(select, target, monkeypatch, tmp_path / "off")
    assert done.exit_code == 10 and said in done.output
