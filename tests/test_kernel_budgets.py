"""Each mechanism behind the speed of kernels, turned off: a budget of the specification notices, without a GPU."""

import sys
from dataclasses import replace
from importlib import import_module
from math import inf
from pathlib import Path
from shutil import copy, copytree

import pytest
from click.testing import CliRunner

from conformance.cli import main
from conformance.loader import load_feature
from refcompiler import clear_cache, pipeline
from refcompiler.analysis import dot_strategy, product_waits, warp_roles
from refcompiler.analysis.axis import AxisAnalysis
from refcompiler.analysis.layout_homes import Anchors, Homes
from refcompiler.analysis.ranges import Ranges
from refcompiler.emitters.cuda import cached, text
from refcompiler.emitters.cuda.plan import Plan
from refcompiler.emitters.mlir import asynchronous, memory
from refcompiler.ir.rewriter import Rewriter
from refcompiler.ir.types import shape_of
from refcompiler.layouts import matrices, shared
from refcompiler.lowering import elementwise, exchange, rings, warpgroup_dot
from refcompiler.passes import allocate_shared, flush_exp2, share_addresses, specialize_warps, sum_products
from refcompiler.passes.insert_barriers import _Barriers

SPEC = Path(__file__).parents[1] / "spec"


def one_element_an_access(monkeypatch):
    monkeypatch.setattr(AxisAnalysis, "vector_width", lambda *_: 1)


def accesses_along_rows(monkeypatch):
    monkeypatch.setattr(Anchors, "order", lambda _, value, shape: tuple(reversed(range(len(shape)))))


def a_comparison_an_element(monkeypatch):
    monkeypatch.setattr(elementwise, "_equal_registers", lambda *_: (1, ()))


def products_complete_after_their_iteration(monkeypatch):
    monkeypatch.setattr(product_waits.ProductWaits, "is_trailing", lambda *_: False)


def left_operands_as_a_whole(monkeypatch):
    monkeypatch.setattr(product_waits.ProductWaits, "is_stepwise", lambda *_: False)


def a_fence_for_each_product(monkeypatch):
    monkeypatch.setattr(warpgroup_dot, "_is_fenced", lambda *_: False)


def stores_left_to_the_compiler(monkeypatch):
    monkeypatch.setattr(text, "access_function", lambda op: None)


def layouts_for_each_reduction(monkeypatch):
    alone = lambda self, op: self.anchors.for_reduction(shape_of(op.blocks[0].type), op.axis)  # noqa: E731
    monkeypatch.setattr(Homes, "combined", alone)


def conversions_through_shared_memory(monkeypatch):
    monkeypatch.setattr(import_module("refcompiler.layouts.conversion"), "_is_cheap", lambda *_: False)


def banks_in_order(monkeypatch):
    monkeypatch.setattr(shared, "conflict_free", lambda lanes, rest, access_bytes: list(rest))


def bytes_of_their_own(monkeypatch):
    monkeypatch.setattr(allocate_shared, "REUSE_FROM", inf)
    monkeypatch.setattr(allocate_shared, "SPARED", inf)


def barriers_between_rounds(monkeypatch):
    monkeypatch.setattr(_Barriers, "apart_in_rounds", lambda *_: False)


def barriers_within_a_thread(monkeypatch):
    monkeypatch.setattr(_Barriers, "same_thread", lambda *_: False)


def no_tensor_cores(monkeypatch):
    monkeypatch.setattr(dot_strategy, "dot_strategy", lambda *_: "fma")


def no_warp_fetches_ahead(monkeypatch):
    monkeypatch.setattr(specialize_warps, "plan_roles", lambda *_: None)


def products_waited_for_at_once(monkeypatch):
    monkeypatch.setattr(product_waits.ProductWaits, "is_chain", lambda *_: False)


def a_ring_for_each_load(monkeypatch):
    grouped = warp_roles._Planner.grouped
    alone = lambda self, loads: [g for item in loads.items() for g in grouped(self, dict([item]))]  # noqa: E731
    monkeypatch.setattr(warp_roles._Planner, "grouped", alone)


def registers_shared_equally(monkeypatch):
    monkeypatch.setattr(rings, "registers_of_roles", lambda *_: None)


def registers_without_a_limit(monkeypatch):
    def unlimited(func, context):
        return lower.run(func, replace(context, options=replace(context.options, maxnreg=None)))

    lower = next(step for step in pipeline.SIMT if step.name == "lower_to_simt")
    monkeypatch.setattr(pipeline, "SIMT", tuple(replace(s, run=unlimited) if s is lower else s for s in pipeline.SIMT))


def roundings_one_by_one(monkeypatch):
    monkeypatch.setattr(Plan, "_pairs", lambda *_: False)


def results_stored_by_threads(monkeypatch):
    monkeypatch.setattr(warp_roles._Planner, "is_bulk", lambda *_: False)


def exchanges_without_matrices(monkeypatch):
    monkeypatch.setattr(matrices, "matrix_access", lambda *_: None)
    monkeypatch.setattr(exchange, "matrix_exchange", lambda *_, **__: None)


def addresses_of_their_own(monkeypatch):
    monkeypatch.setattr(share_addresses, "_parts", lambda *_: None)


def priorities_left_out(monkeypatch):
    for module in (cached, memory):
        monkeypatch.setattr(module, "ptx_flag", lambda op: None)


def addresses_known_to_llvm(monkeypatch):
    for module in (memory, asynchronous):
        monkeypatch.setattr(module, "distances", lambda *_: None)


def products_rounded_before_sums(monkeypatch):
    monkeypatch.setattr(sum_products, "_parts", lambda *_: None)


def no_contraction(monkeypatch):
    monkeypatch.setattr(pipeline, "TILE", tuple(step for step in pipeline.TILE if step.name != "form_fma"))


def exponentials_with_subnormal_results(monkeypatch):
    monkeypatch.setattr(flush_exp2, "Rewriter", lambda *_, **__: Rewriter(()))


def grids_one_after_the_other(monkeypatch):
    monkeypatch.setattr(rings, "wait_for_grids", lambda *_: None)


def maps_when_they_are_used(monkeypatch):
    monkeypatch.setattr(rings, "prefetch_maps", lambda *_: None)


def loops_over_trips(monkeypatch):
    monkeypatch.setattr(Ranges, "can_count_wider", lambda *_: False)


MECHANISMS = [
    # what is turned off, a pass or what it decides; the budget that notices, and what it says
    (one_element_an_access, "kernels.layer_norm/vectors", "cuda", "LDG.E.128"),
    (one_element_an_access, "kernels.softmax/vectors_mlir", "mlir", "STG.E.EF.128"),
    (accesses_along_rows, "scan.cumsum/columns", "simt", "sectors"),
    ("decide_comparisons", "opt.decide_comparisons/whole", "cuda", "ISETP"),
    (a_comparison_an_element, "kernels.layer_norm/vectors", "cuda", "ISETP"),
    (stores_left_to_the_compiler, "kernels.transpose/vectors", "cuda", "STG.E.128"),
    (layouts_for_each_reduction, "kernels.layer_norm/vectors", "cuda", "smem"),
    (conversions_through_shared_memory, "shape.join/lanes", "simt", "shuffles"),
    (banks_in_order, "shape.trans/sectors", "simt", "bank_conflicts"),
    (bytes_of_their_own, "linalg.dot/bytes_16", "cuda", "smem"),
    ("cse", "kernels.vector_add/sectors", "simt", "barriers"),
    ("licm", "reduce.sum/rounds_counts", "simt", "integer_instructions"),
    ("delay_shared_loads", "kernels.softmax/long_barriers", "simt", "barriers"),
    (barriers_between_rounds, "kernels.softmax/long_barriers", "simt", "barriers"),
    (barriers_within_a_thread, "kernels.vector_add/sectors", "simt", "barriers"),
    ("copy_ahead", "kernels.softmax/looped", "cuda", "LDGSTS"),
    ("copy_ahead", "kernels.layer_norm/looped_mlir", "mlir", "LDGSTS"),
    ("copy_ahead", "linalg.dot/bytes_16", "cuda", "LDGSTS"),
    ("hold_in_shared", "opt.hold_in_shared/registers", "cuda", "LDS.128"),
    ("divide_over_ctas", "program.clusters/softmax", "cuda", "STAS"),
    (addresses_of_their_own, "kernels.softmax/addresses", "cuda", "LEA"),
    (priorities_left_out, "kernels.rms_norm/vectors", "cuda", "LDG.E.EL.128"),
    (priorities_left_out, "memory.load/priorities_mlir", "mlir", "LDG.E.EF"),
    (addresses_known_to_llvm, "kernels.rms_norm/registers_mlir", "mlir", "regs"),
    (no_contraction, "opt.fma/contracted", "cuda", "FFMA"),
    (products_rounded_before_sums, "kernels.rms_norm/tuned", "cuda", "FFMA"),
    (no_tensor_cores, "linalg.dot/bytes_16", "cuda", "HMMA"),
    (exchanges_without_matrices, "linalg.dot/bytes_16", "cuda", "LDSM"),
    ("unwrap_indices", "opt.boxes/wrapped", "cuda", "UTMALDG"),
    ("form_boxes", "opt.boxes/pointers", "cuda", "UTMALDG"),
    ("specialize_warps", "kernels.matmul/narrow", "cuda", "HGMMA"),
    (no_warp_fetches_ahead, "kernels.attention/warpgroups", "mlir", "spill_bytes"),
    ("rotate_products", "kernels.attention/warpgroups", "cuda", "HGMMA"),
    (products_complete_after_their_iteration, "kernels.attention/warpgroups", "cuda", "WARPGROUP.DEPBAR"),
    (a_fence_for_each_product, "kernels.attention/warpgroups", "cuda", "WARPGROUP.ARRIVE"),
    (left_operands_as_a_whole, "kernels.attention/two_programs", "cuda", "WARPGROUP.ARRIVE"),
    ("skip_unselected", "kernels.attention/two_programs", "cuda", "VOTE.ANY"),
    (products_waited_for_at_once, "kernels.matmul/warpgroups", "cuda", "WARPGROUP.DEPBAR"),
    (a_ring_for_each_load, "kernels.matmul/warpgroups", "cuda", "SYNCS.EXCH"),
    (registers_shared_equally, "kernels.attention/two_programs", "cuda", "HGMMA"),
    (registers_without_a_limit, "kernels.attention/two_programs", "cuda", "regs"),
    (roundings_one_by_one, "kernels.matmul/warpgroups", "cuda", "HGMMA"),
    (results_stored_by_threads, "kernels.matmul/warpgroups", "cuda", "UTMASTG"),
    (exchanges_without_matrices, "kernels.matmul/warpgroups", "cuda", "STSM"),
    (exchanges_without_matrices, "kernels.attention/warpgroups", "cuda", "STSM"),
    (grids_one_after_the_other, "kernels.matmul/warpgroups", "cuda", "ACQBULK"),
    (maps_when_they_are_used, "kernels.matmul/warpgroups", "cuda", "UTMACCTL"),
    (loops_over_trips, "kernels.matmul/warpgroups", "cuda", "MUFU"),
    (exponentials_with_subnormal_results, "kernels.attention/warpgroups", "cuda", "FSETP"),
]


def feature_files(budgets):
    """The features of budgets, and those whose clauses products name."""
    features = {budget.partition("/")[0] for budget in budgets}
    return [
        SPEC / "features" / f"{name.replace('.', '/')}.yaml" for name in {*features, "linalg.dot", "linalg.dot_fp8"}
    ]


@pytest.fixture(scope="module")
def read_before(tmp_path_factory):
    """A cache that holds the features, read and checked, and no machine code."""
    folder = tmp_path_factory.mktemp("read")
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("TILESPEC_CACHE_DIR", str(folder))
        for file in feature_files(budget for _, budget, *_ in MECHANISMS):
            load_feature(file, SPEC)
    return folder


@pytest.fixture
def run(monkeypatch, tmp_path, read_before):
    """Checks budgets: their features alone, with no machine code from other runs and no layouts from before."""

    def run(target, *budgets):
        for file in feature_files(budgets):
            (tmp_path / file.relative_to(SPEC)).parent.mkdir(parents=True, exist_ok=True)
            copy(file, tmp_path / file.relative_to(SPEC))
        monkeypatch.setenv("TILESPEC_CACHE_DIR", str(copytree(read_before, tmp_path / "cache")))
        forget()
        selected = [f"{budget}:*" for budget in budgets]
        return CliRunner().invoke(main, ["run", *selected, "--target", target, "-n", "1", "--spec", str(tmp_path)])

    yield run
    monkeypatch.undo()
    forget()


def forget():
    """Machine code and plans of layouts that this process keeps."""
    clear_cache(disk=False)
    for name, module in list(sys.modules.items()):
        for function in vars(module).values() if name.startswith("refcompiler.layouts") else ():
            if hasattr(function, "cache_clear"):
                function.cache_clear()


@pytest.mark.parametrize("target", ["cuda", "mlir", "simt"])
def test_budgets_hold(run, target):
    done = run(target, *{budget for _, budget, judge, _ in MECHANISMS if judge == target})
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize(("mechanism", "budget", "target", "said"), MECHANISMS)
def test_a_budget_notices_that_a_mechanism_is_off(monkeypatch, run, mechanism, budget, target, said):
    if callable(mechanism):
        mechanism(monkeypatch)
    else:
        monkeypatch.setenv("TILESPEC_WITHOUT_PASSES", mechanism)
    done = run(target, budget)
    assert done.exit_code == 10 and f"{said} " in done.output, done.output


def test_each_pass_for_speed_has_a_budget():
    assert {mechanism for mechanism, *_ in MECHANISMS if isinstance(mechanism, str)} == pipeline.ONLY_FOR_SPEED
