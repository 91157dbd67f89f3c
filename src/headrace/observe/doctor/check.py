"""What a check says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "info", "warning", "problem"]
"""`problem`: events do not move, or a promise does not hold. `warning`: it will come to that, or somebody should look."""


@dataclass(frozen=True)
class Check:
    """The outcome of one check on one shard. What is not ok says what to do."""

    shard: str
    check: str
    level: Level
    message: str
    advice: str | None = None
