"""Series: rates, latencies and lag over time, from the samples and histories of a run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, quantiles

from headrace.prove.checks.timing import rates
from headrace.prove.evidence import Evidence

BUCKET_MIN_S = 2.0
POINTS_MAX = 600
"""More points than this do not fit into a chart."""
Points = list[tuple[float, float]]
"""Time and value."""


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


def publish_latencies(evidence: Evidence) -> Points:
    """When a transaction was acknowledged, and how long after its first attempt."""
    return [
        (operation.ended_at, operation.ended_at - operation.started_at)
        for operation in evidence.operations
        if operation.acknowledged
    ]


def read_latencies(evidence: Evidence) -> Points:
    """When the reader read an acknowledged event, and how long after the acknowledgement."""
    acknowledged = {
        sent.id: operation.ended_at for operation in evidence.operations if operation.acknowledged for sent in operation.events
    }
    return [(read.at, max(read.at - acknowledged[read.id], 0.0)) for read in evidence.reads if read.id in acknowledged]


def rate_points(evidence: Evidence) -> Points:
    return [(at, max(rate, 0.0)) for at, rate in rates(evidence.samples)]


def lag_points(evidence: Evidence) -> Points:
    return [(sample.at, float(sample.lag)) for sample in evidence.samples]


def queue_points(evidence: Evidence) -> Points:
    return [(sample.at, float(sample.queue)) for sample in evidence.samples]


def median_line(points: Sequence[tuple[float, float]], started_at: float, until_s: float, *, scale: float = 1.0) -> Points:
    """The medians of equal intervals; times become seconds after `started_at`."""
    bucket_s = max(until_s / POINTS_MAX, BUCKET_MIN_S)
    buckets: dict[int, list[float]] = defaultdict(list)
    for at, value in points:
        if at >= started_at:
            buckets[int((at - started_at) / bucket_s)].append(value * scale)
    return [((bucket + 0.5) * bucket_s, median(values)) for bucket, values in sorted(buckets.items())]
