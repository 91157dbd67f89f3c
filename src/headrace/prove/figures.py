"""Figures of a run: rates, latencies and lag over time, from the samples and histories."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, quantiles

from headrace.prove.check_time import rates
from headrace.prove.evidence import Evidence

BUCKET_MIN_S = 2.0
POINTS_MAX = 600
"""As many as a chart has room for."""
Line = list[tuple[float, float]]
"""Points (seconds after the start, value)."""


@dataclass(frozen=True)
class Latency:
    """Percentiles in milliseconds."""

    count: int
    p50_ms: float
    p99_ms: float
    max_ms: float


def latency(values_s: Sequence[float]) -> Latency:
    if len(values_s) < 2:
        return Latency(len(values_s), 0.0, 0.0, 0.0)
    cuts = quantiles(values_s, n=100)
    return Latency(len(values_s), cuts[49] * 1000, cuts[98] * 1000, max(values_s) * 1000)


def publish_times(evidence: Evidence) -> list[tuple[float, float]]:
    """When a transaction was acknowledged, and how long after it was begun first."""
    return [(one.ended_at, one.ended_at - one.began_at) for one in evidence.operations if one.acknowledged]


def visible_times(evidence: Evidence) -> list[tuple[float, float]]:
    """When an acknowledged event was seen by the reader, and how long after."""
    acknowledged = {sent.id: one.ended_at for one in evidence.operations if one.acknowledged for sent in one.events}
    return [(one.at, max(one.at - acknowledged[one.id], 0.0)) for one in evidence.seen if one.id in acknowledged]


def rate_points(evidence: Evidence) -> list[tuple[float, float]]:
    return [(at, max(rate, 0.0)) for at, rate in rates(evidence.samples)]


def lag_points(evidence: Evidence) -> list[tuple[float, float]]:
    return [(one.at, float(one.lag)) for one in evidence.samples]


def queue_points(evidence: Evidence) -> list[tuple[float, float]]:
    return [(one.at, float(one.queue)) for one in evidence.samples]


def medians(points: Sequence[tuple[float, float]], began_at: float, until_s: float, *, scale: float = 1.0) -> Line:
    """A line of the medians of equal spans of time."""
    bucket_s = max(until_s / POINTS_MAX, BUCKET_MIN_S)
    buckets: dict[int, list[float]] = defaultdict(list)
    for at, value in points:
        if at >= began_at:
            buckets[int((at - began_at) / bucket_s)].append(value * scale)
    return [((bucket + 0.5) * bucket_s, median(values)) for bucket, values in sorted(buckets.items())]
