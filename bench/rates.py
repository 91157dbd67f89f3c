"""Rates: what an event costs in CPU of server and node at 20, 200 and 1 000 events a second, for docs/operations.md.

At a low rate a step has few events, so an event costs more than in a batch. One topic, one consumer, one event per transaction; the
publisher's own CPU is left out. Figures are costs per event, not ratios: they belong to this machine."""

from __future__ import annotations

import time

from bench.child import child
from bench.lab import Lab, cpu_s, surroundings
from bench.result import Figure, report

RATES = (20, 200, 1000)
CONNECTIONS = 4
WARM_S = 3.0
"""The first events after a start plan their statements."""


def run(lab: Lab, *, quick: bool) -> None:
    figures: list[Figure] = []
    for rate in RATES:
        server_ms, node_ms = _measure(lab, rate, seconds=3.0 if quick else 60.0)
        cores = (server_ms + node_ms) * rate / 1000
        figures += [
            Figure(f"CPU of the server at {rate} events/s", round(server_ms, 2), 0, unit="ms an event"),
            Figure(f"CPU of the node at {rate} events/s", round(node_ms, 2), 0, unit="ms an event"),
            Figure(f"both at {rate} events/s", round(cores, 2), 0, unit="cores"),
        ]
    report("rates", surroundings(lab), figures, {})


def _measure(lab: Lab, rate: int, *, seconds: float) -> tuple[float, float]:
    """CPU milliseconds of the server and of the node for an event that is published, sequenced and handled."""
    with (
        lab.database(f"rates_{rate}", partitions=1) as target,
        child("bench.node", target.dsn, "clock") as node,
        child("bench.producer", target.dsn, str(rate), str(CONNECTIONS)),
    ):
        time.sleep(WARM_S)
        before, server_s, node_s = node.ask()["handled"], lab.cpu_s(), cpu_s(node.pid)
        time.sleep(seconds)
        events = node.ask()["handled"] - before
        return 1000 * (lab.cpu_s() - server_s) / events, 1000 * (cpu_s(node.pid) - node_s) / events
