"""The result of a check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "info", "warning", "problem"]
"""`problem`: events do not move, or a promise is broken. `warning`: that will happen, or somebody should take a look."""


@dataclass(frozen=True)
class Check:
    """The result of one check on one shard. A warning or a problem comes with advice."""

    shard: str
    check: str
    level: Level
    message: str
    advice: str | None = None
