"""Checks: one function per promise. Pure: they take the evidence of a run and return a result with the smallest example."""

from headrace.prove.checks import log, reactions, timing
from headrace.prove.checks.result import Check, CheckResult, Violation, merge_shards
from headrace.prove.checks.timing import rate_returns

CHECKS = tuple(value for module in (log, reactions, timing) for value in vars(module).values() if isinstance(value, Check))
"""Every check that takes the evidence alone."""

__all__ = ["CHECKS", "CheckResult", "Violation", "merge_shards", "rate_returns"]
