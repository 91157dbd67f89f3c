"""Prove: a checker that tries to break every promise, on a database of its own.

Owns: a workload in processes of its own, faults, histories outside the database, and the checks over what is left at the end.
Promises: what it calls a violation can be shown; the plan of faults and the workload's values follow from the seed; it ends the
processes it started and no others, and touches no database that it did not make."""

from headrace.prove.evidence import Evidence
from headrace.prove.nemesis import FAULTS, Fault
from headrace.prove.report import summary, write_report
from headrace.prove.run import CHECKS, Options, Proved, prove
from headrace.prove.verdict import Verdict, Violation

__all__ = [
    "CHECKS",
    "FAULTS",
    "Evidence",
    "Fault",
    "Options",
    "Proved",
    "Verdict",
    "Violation",
    "prove",
    "summary",
    "write_report",
]
