"""What the doctor finds: the result of a check, with its level and advice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Level: TypeAlias = Literal["ok", "info", "warning", "problem"]
"""`problem`: events do not move, or a promise is broken. `warning`: that will happen, or somebody should take a look."""
Finding: TypeAlias = tuple[str, Level, str] | tuple[str, Level, str, str]
"""Check, level, message and, for a warning or a problem, advice."""


@dataclass(frozen=True)
class Check:
    """The result of one check on one shard. A warning or a problem comes with advice."""

    shard: str
    check: str
    level: Level
    message: str
    advice: str | None = None
