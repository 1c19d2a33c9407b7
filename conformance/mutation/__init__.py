"""Mutation testing of the suite: known mistakes put into the reference compiler one at a time, and who finds each.

The compiler holds no switches: `catalogue.yaml` names a place in its source and the wrong text, a child process serves
that text at import (`patching`), and runs the cases (`child`). `run` gives the report.
"""

from conformance.mutation.campaign import run
from conformance.mutation.catalogue import Mutant, load_catalogue
from conformance.mutation.verdicts import MutationReport, Verdict

__all__ = ["Mutant", "MutationReport", "Verdict", "load_catalogue", "run"]
