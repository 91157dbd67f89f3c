"""Families: every metric of headrace, with its labels. Metrics, dashboard, alerts and docs take the names from here.

Labels hold names that people chose (topics, consumers, rules), never ids, keys or error texts, so their number is bounded by the
number of definitions. Above SERIES_MAX series a family sums the rest under the label value `other`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

SERIES_MAX = 1000
"""Series of one family, beside the one for the rest. Those that come first stay, so that a series does not come and go."""
OTHER = "other"


@dataclass(frozen=True)
class Family:
    """One metric. `source`: the database, so that every node shows the same value (combine nodes by max); or the node's own process
    (combine nodes by sum). `rest`: how the series above the maximum are combined."""

    name: str
    kind: Literal["gauge", "counter", "histogram"]
    source: Literal["database", "node"]
    labels: tuple[str, ...]
    help: str
    rest: Literal["sum", "max", "min"] = "sum"


FAMILIES: tuple[Family, ...] = (
    Family(
        "headrace_consumer_lag_events", "gauge", "database", ("namespace", "topic", "consumer"),
        "Events that a consumer has not handled yet.",
    ),
    Family(
        "headrace_consumer_lag_seconds", "gauge", "database", ("namespace", "topic", "consumer"),
        "Age of the oldest event that a consumer has not handled yet.", "max",
    ),
    Family(
        "headrace_outbox_waiting", "gauge", "database", ("namespace", "topic"),
        "Published events that are not in the log yet; exact up to 10 000 together, above that an estimate.",
    ),
    Family(
        "headrace_sequenced_events_total", "counter", "database", ("namespace", "topic"),
        "Events in the log since the topic was created: the newest position.",
    ),
    Family(
        "headrace_action_queue", "gauge", "database", ("namespace", "state"),
        "Actions in the queue by state; exact up to 1 000 of a state, above that an estimate.",
    ),
    Family(
        "headrace_action_wait_seconds", "gauge", "database", ("namespace",),
        "Time since the oldest action that waits for a handler fell due; 0 if none waits.", "max",
    ),
    Family(
        "headrace_dead_letters", "gauge", "database", ("namespace", "kind", "reason"),
        "Open dead letters of actions and events; exact up to 1 000 of a kind.",
    ),
    Family(
        "headrace_rule_firings_total", "counter", "database", ("namespace", "topic", "rule"),
        "Firings of a rule since the node was first scraped.",
    ),
    Family(
        "headrace_log_bytes", "gauge", "database", ("namespace", "topic"),
        "Size of a topic's log on disk, with indexes; read every 5 minutes.",
    ),
    Family(
        "headrace_notification_queue_usage", "gauge", "database", (),
        "Fill of the server's notification queue, 0 to 1; from 0.5 on publishers do not notify and the sequencer polls.", "max",
    ),
    Family(
        "headrace_node_up", "gauge", "database", ("namespace", "node"),
        "1 if a registered node is alive, 0 if it is lost: no heartbeat for 90 seconds.", "min",
    ),
    Family(
        "headrace_database_up", "gauge", "node", (),
        "1 if this node could read the metrics of the database at the last scrape.", "min",
    ),
    Family(
        "headrace_correlator_outputs_total", "counter", "node", ("namespace", "correlator"),
        "Outputs of a correlator that this node wrote.",
    ),
    Family(
        "headrace_handler_duration_seconds", "histogram", "node", ("kind", "handler"),
        "Time that the handlers of this node took: per event of a consumer, per batch of a batch consumer, per action.",
    ),
    Family(
        "headrace_loop_failures_total", "counter", "node", ("loop",),
        "Steps of this node's loops that failed and were tried again.",
    ),
)  # fmt: skip
_BY_NAME = {family.name: family for family in FAMILIES}


def metric_family(name: str) -> Family:
    """The family with a name."""
    return _BY_NAME[name]


@dataclass(frozen=True)
class Sample:
    """A value of a family; `labels` has the values of the family's labels, in order."""

    family: Family
    labels: tuple[str, ...]
    value: float


def limit_series(family: Family, samples: Iterable[Sample], *, series_max: int = SERIES_MAX) -> Sequence[Sample]:
    """The samples of one family; those beyond `series_max` are combined into one with the label value `other`."""
    samples = list(samples)
    if len(samples) <= series_max:
        return samples
    values = [sample.value for sample in samples[series_max:]]
    rest = {"sum": sum(values), "max": max(values), "min": min(values)}[family.rest]
    return [*samples[:series_max], Sample(family, (OTHER,) * len(family.labels), rest)]
