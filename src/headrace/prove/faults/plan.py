"""Plan: which fault comes when. Pure; the same seed gives the same plan."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

LEAD_S = 6.0
"""Quiet time before the first fault, to measure the usual rate."""
TAIL_S = 4.0
PAUSE_MIN_S, PAUSE_MAX_S = 3.0, 34.0
"""From one fault to the next. The longest leaves the rate its 30 s to recover, so that a long run judges every fault."""
FAULTS_PER_RUN = 100
"""A long run has at least this many faults; a short one has as many as its pauses allow."""


@dataclass(frozen=True)
class PlannedFault:
    """A fault, its earliest time in seconds after the start, and the seed of its own choices."""

    at_s: float
    fault: str
    seed: int


def make_plan(
    seed: int, *, seconds: float, faults: Sequence[str], lead_s: float = LEAD_S, pause_min_s: float = PAUSE_MIN_S
) -> tuple[PlannedFault, ...]:
    """Rounds of all faults, each in another order. The first round is complete, however short the run."""
    if not faults:
        return ()
    draw = random.Random(f"{seed}:plan")
    pause_s = min(max(seconds / FAULTS_PER_RUN, pause_min_s), PAUSE_MAX_S)
    planned: list[PlannedFault] = []
    at_s = lead_s
    while at_s < seconds - TAIL_S or len(planned) < len(faults):
        for fault in draw.sample(list(faults), len(faults)):
            if at_s >= seconds - TAIL_S and len(planned) >= len(faults):
                break
            planned.append(PlannedFault(round(at_s, 3), fault, draw.getrandbits(32)))
            at_s += pause_s * draw.uniform(0.95, 1.05)
    return tuple(planned)
