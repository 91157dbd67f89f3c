"""Results: rounds of two sides in turns, medians, targets, a table and a JSON file."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Round:
    """One run of one side: events per second, and CPU microseconds per event over server and clients."""

    rate: float
    cpu_us: float
    notes: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Side:
    """All rounds of one side."""

    name: str
    rounds: list[Round]

    @property
    def rate(self) -> float:
        return median(round_.rate for round_ in self.rounds)

    @property
    def cpu_us(self) -> float:
        return median(round_.cpu_us for round_ in self.rounds)


@dataclass(frozen=True)
class Figure:
    """A figure with its target."""

    name: str
    value: float
    target: float
    unit: str = "×"
    at_most: bool = False
    detail: str = ""

    @property
    def met(self) -> bool:
        return self.value <= self.target if self.at_most else self.value >= self.target


def ratio(name: str, ours: Side, theirs: Side, target: float) -> Figure:
    """Our rate over theirs: the median over the pairs of rounds that ran next to each other, so that a slow moment hits both."""
    pairs = [a.rate / b.rate for a, b in zip(ours.rounds, theirs.rounds, strict=True)]
    detail = (
        f"{ours.rate:,.0f}/s : {theirs.rate:,.0f}/s, pairs {min(pairs):.2f}–{max(pairs):.2f}, "
        f"CPU {ours.cpu_us:.0f} : {theirs.cpu_us:.0f} µs = {theirs.cpu_us / max(ours.cpu_us, 0.1):.2f}"
    )
    return Figure(name, median(pairs), target, detail=detail)


def cpu_ratio(name: str, ours: Side, theirs: Side, target: float) -> Figure:
    """Their CPU time per event over ours, the median over pairs of rounds as in `ratio`: other work on the machine hardly shows."""
    pairs = [b.cpu_us / a.cpu_us for a, b in zip(ours.rounds, theirs.rounds, strict=True)]
    detail = (
        f"CPU {ours.cpu_us:.0f} : {theirs.cpu_us:.0f} µs, pairs {min(pairs):.2f}–{max(pairs):.2f}, "
        f"{ours.rate:,.0f}/s : {theirs.rate:,.0f}/s = {ours.rate / theirs.rate:.2f}"
    )
    return Figure(name, median(pairs), target, detail=detail)


def report(name: str, surroundings: dict[str, object], figures: list[Figure], raw: dict[str, object]) -> None:
    """Prints the table and writes results/<name>.json."""
    table = Table(title=f"{name} ({surroundings['cpus']} CPUs, load {os.getloadavg()[0]:.1f})")
    for column in ("figure", "value", "target", "", "how"):
        table.add_column(column)
    for figure in figures:
        bound = f"{'≤' if figure.at_most else '≥'} {figure.target:g} {figure.unit}"
        table.add_row(figure.name, f"{figure.value:.2f} {figure.unit}", bound, "met" if figure.met else "MISSED", figure.detail)
    Console(width=170).print(table)
    RESULTS.mkdir(exist_ok=True)
    content = {
        "command": "python -m bench " + " ".join(sys.argv[1:]),
        "surroundings": {**surroundings, "load_average_after": os.getloadavg()},
        "figures": [{**asdict(figure), "met": figure.met} for figure in figures],
        "raw": raw,
    }
    (RESULTS / f"{name}.json").write_text(json.dumps(content, indent=2, default=_plain) + "\n")


def _plain(value: object) -> object:
    assert isinstance(value, Side)
    return asdict(value) | {"rate": value.rate, "cpu_us": value.cpu_us}
