"""Specs: a rule version and a correlator version as they are evaluated over columns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from headrace.lang.ecl import Table, compile, parse


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSpec:
    """A rule version as Spark runs it: on events of a type (and topic, unless it is None) from a position on, if the condition is true."""

    name: str
    event_type: str
    action: str
    condition: str = "true"
    version: int = 1
    topic: str | None = None
    since_offset: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrelatorSpec:
    """A correlator version as Spark runs it. `key` is a value of the condition language; None: one machine for all events."""

    name: str
    pattern: str
    key: str | None = None
    version: int = 1
    topic: str | None = None
    since_offset: int = 0
    evidence_max: int = 100
    forgets: bool = False
    """Keys without events are forgotten, so the state of every key with events is returned."""
    compiled: Table | None = None
    """The stored table of the pattern: another release may number its states differently."""

    @property
    def table(self) -> Table:
        return self.compiled if self.compiled is not None else table_of(self.pattern)


@lru_cache(maxsize=256)
def table_of(pattern: str) -> Table:
    """The compiled table of a pattern's text. Raises PatternError."""
    return compile(parse(pattern))
