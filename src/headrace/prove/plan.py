"""Plan: which faults come when. Pure; the same seed gives the same plan."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

LEAD_S = 6.0
"""Quiet time before the first fault, so that there is a rate to compare with."""
TAIL_S = 4.0
PAUSE_MIN_S, PAUSE_MAX_S = 3.0, 34.0
"""From one fault to the next. The longest leaves the rate its 30 s to come back, so in a long run every fault is judged."""
FAULTS_PER_RUN = 100
"""How many faults a long run is to have at least; a short one has as many as its pauses allow."""


@dataclass(frozen=True)
class Planned:
    """A fault, when it comes (seconds after the start, at the earliest), and the seed of its own choices."""

    at_s: float
    fault: str
    seed: int


def make_plan(seed: int, *, seconds: float, faults: Sequence[str]) -> tuple[Planned, ...]:
    """Every fault comes once, however short the run, and before any comes twice; each round in another order."""
    if not faults:
        return ()
    draw = random.Random(f"{seed}:plan")
    pause_s = min(max(seconds / FAULTS_PER_RUN, PAUSE_MIN_S), PAUSE_MAX_S)
    planned: list[Planned] = []
    at_s = LEAD_S
    while at_s < seconds - TAIL_S or len(planned) < len(faults):
        for fault in draw.sample(list(faults), len(faults)):
            if at_s >= seconds - TAIL_S and len(planned) >= len(faults):
                break
            planned.append(Planned(round(at_s, 3), fault, draw.getrandbits(32)))
            at_s += pause_s * draw.uniform(0.95, 1.05)
    return tuple(planned)
