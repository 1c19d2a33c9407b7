"""The generated part of docs/debugging.md: what the simulator says of programs that the specification rejects."""

from __future__ import annotations

from conformance.adapters import Rejected, Valid, load
from conformance.calls import bind, call_arguments, make_arrays
from conformance.instances import Instance, instances
from conformance.loader import load_feature, spec_root

# One case for each finding, in the order of the table.
SHOWN = (
    "exec.shared_memory/no_barrier",
    "exec.global_memory/vector_past_the_end",
    "exec.shared_memory/odd_vector",
    "exec.shared_memory/unwritten",
    "exec.barriers/trips_differ",
    "exec.shuffles/member_missing",
    "exec.roles/nobody_answers",
    "memory.order/threads_write_write",
)


def findings() -> str:
    """For each shown case its instance, and the error that running it gives."""
    lines = ["```"]
    for name in SHOWN:
        area, feature = name.split("/")[0].split(".")
        loaded = load_feature(spec_root() / "features" / area / f"{feature}.yaml", spec_root())
        instance = next(i for i in instances(loaded) if i.case_id == name)
        lines += [f"# {instance.id}", *_finding(instance), ""]
    return "\n".join([*lines[:-1], "```"]) + "\n"


def _finding(instance: Instance) -> list[str]:
    """The rendered error of a case that the simulator rejects."""
    adapter = load("simt")
    call = bind(instance.program, instance.params)
    compiled = adapter.compile(call.request())
    assert isinstance(compiled, Valid), compiled
    arrays = make_arrays(call, instance.inputs, instance.id)
    answer = adapter.run(compiled, call.launch_grid, call_arguments(call, arrays, {}))
    assert isinstance(answer, Rejected), answer
    return answer.rendered.splitlines()


PARTS = (("docs/debugging.md", "findings", findings),)
