"""Doctor: checks a database and says what is wrong and what to do.

Promises: it only reads; a check that cannot be made is itself a finding, never a crash."""

from headrace.observe.doctor.checks import Check, Level, compare_shards, examine

__all__ = [
    "Check",
    "Level",
    "compare_shards",
    "examine",
]
