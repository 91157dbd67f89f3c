"""Prove: a checker that tries to break every promise, on a database of its own.

Owns: a workload in processes of its own, faults, histories outside the database, and checks of the evidence at the end.
Promises: it can show every violation it reports; the plan of faults and the workload's values follow from the seed; it ends the
processes it started and no others, and touches no database that it did not create."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.prove.checks import CHECKS, CheckResult, Violation
    from headrace.prove.environment import Options
    from headrace.prove.evidence import Evidence
    from headrace.prove.faults import FAULTS, Fault
    from headrace.prove.relay_targets import RELAY_KINDS
    from headrace.prove.report import summarize, write_report
    from headrace.prove.run import RunResult, prove

__all__ = [
    "CHECKS",
    "FAULTS",
    "RELAY_KINDS",
    "CheckResult",
    "Evidence",
    "Fault",
    "Options",
    "RunResult",
    "Violation",
    "prove",
    "summarize",
    "write_report",
]

_MODULES = {
    "checks": {"CHECKS", "CheckResult", "Violation"},
    "environment": {"Options"},
    "evidence": {"Evidence"},
    "faults": {"FAULTS", "Fault"},
    "relay_targets": {"RELAY_KINDS"},
    "report": {"summarize", "write_report"},
    "run": {"RunResult", "prove"},
}
"""Loaded when a name is used: the processes of a workload import this package too, and need none of it."""

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        from importlib import import_module

        for module, names in _MODULES.items():
            if name in names:
                value = globals()[name] = getattr(import_module(f"headrace.prove.{module}"), name)
                return value
        raise AttributeError(f"module 'headrace.prove' has no attribute {name!r}")
