"""Prove: a checker that tries to break every promise, on a database of its own.

Owns: a workload in processes of its own, faults, histories outside the database, and checks of the evidence at the end.
Promises: it can show every violation it reports; the plan of faults and the workload's values follow from the seed; it ends the
processes it started and no others, and touches no database that it did not create."""

from typing import TYPE_CHECKING

from headrace.lazy_names import lazy_names

if TYPE_CHECKING:
    from headrace.prove.checks import CHECKS as CHECKS, CheckResult as CheckResult, Violation as Violation
    from headrace.prove.environment import Options as Options
    from headrace.prove.evidence import Evidence as Evidence
    from headrace.prove.faults import FAULTS as FAULTS, Fault as Fault
    from headrace.prove.relay_targets import RELAY_KINDS as RELAY_KINDS
    from headrace.prove.report import summarize as summarize, write_report as write_report
    from headrace.prove.run import RunResult as RunResult, prove as prove
else:
    # The processes of a workload import this package too, and need none of these.
    __getattr__ = lazy_names(__name__, "checks", "environment", "evidence", "faults", "relay_targets", "report", "run")
