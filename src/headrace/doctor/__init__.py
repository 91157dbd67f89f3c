"""Doctor: looks a database over and says what is wrong and what to do about it.

Owns: the checks. Promises: it only reads; a check that cannot be made is itself a finding, never a crash."""

from headrace.doctor._check import Check, Level
from headrace.doctor._examine import compare_shards, examine

__all__ = ["Check", "Level", "compare_shards", "examine"]
