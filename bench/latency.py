"""From publish to handler: at 1 000 events per second, and when idle (the sequencer asleep between two events).

An event's way counts from its emitted_at, the start of the publishing statement, so both commits are in it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from statistics import median

from bench.child import child
from bench.lab import Lab, settle, surroundings
from bench.result import Figure, report
from headrace.db import connect


def run(lab: Lab, *, quick: bool) -> None:
    facts = surroundings(lab)
    rounds, seconds = (2, 4.0) if quick else (3, 20.0)
    raw: dict[str, object] = {}
    figures: list[Figure] = []
    for name, rate, connections in (("1 000 events/s", 1000.0, 8), ("idle, 2 events/s", 2.0, 1)):
        notes = [_round(lab, rate, connections, seconds) for _ in range(rounds)]
        middle = {key: median(note[key] for note in notes) for key in notes[0]}
        detail = (
            f"{middle['rate']:,.0f} events/s, max {middle['max_ms']:.1f} ms, producer late p99 {middle['late_p99_ms']:.1f} ms; "
            f"rounds p50 {', '.join(format(note['p50_ms'], '.1f') for note in notes)}, "
            f"p99 {', '.join(format(note['p99_ms'], '.1f') for note in notes)}"
        )
        figures.append(Figure(f"{name}: p50", middle["p50_ms"], 5, "ms", at_most=True, detail=detail))
        figures.append(Figure(f"{name}: p99", middle["p99_ms"], 25, "ms", at_most=True))
        raw[name] = notes
    report("latency", facts, figures, raw)


def _round(lab: Lab, rate: float, connections: int, seconds: float) -> dict[str, float]:
    with (
        lab.database("latency", partitions=10) as target,
        connect(target) as conn,
        child("bench.node", target.dsn, "clock") as node,
    ):
        settle(conn)
        with child("bench.producer", target.dsn, str(rate), str(connections)) as producer:
            time.sleep(1.5)
            node.ask()
            start, published = time.monotonic(), producer.ask()["published"]
            time.sleep(seconds)
            made, ways = producer.ask(), node.ask()["ways_ms"]
            elapsed = time.monotonic() - start
        return {
            "rate": (made["published"] - published) / elapsed,
            "handled": len(ways),
            "p50_ms": _quantile(ways, 0.5),
            "p90_ms": _quantile(ways, 0.9),
            "p99_ms": _quantile(ways, 0.99),
            "max_ms": ways[-1],
            "late_p99_ms": _quantile(made["late_ms"], 0.99),
        }


def _quantile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
