"""Metrics of the databases, for Prometheus: the same names and numbers that a node shows, without those of its process.

Read as the role of whoever asks, so a role of one namespace sees the numbers of that namespace only."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Lock
from time import monotonic

from starlette.responses import Response

from headrace.core import DatabaseUnavailable
from headrace.db import Target
from headrace.observe.metrics import CONTENT_TYPE, MetricsMemory, Sample, metric_family, read_metrics, render
from headrace.web.console.routes import read
from headrace.web.console.view import View

AGE_MIN_S = 1.0
"""A reading younger than this is used again: nobody can load the database by scraping."""


@dataclass
class Scraper:
    """What one role has read from one shard."""

    lock: Lock = field(default_factory=Lock)
    memory: MetricsMemory = field(default_factory=MetricsMemory)
    samples: list[Sample] = field(default_factory=list)
    read_at: float = float("-inf")


def show_metrics(view: View) -> Response:
    """All shards in the text format of Prometheus; one that does not answer has `headrace_database_up` 0."""
    text = render({target.name: _read(view, target) for target in view.targets})
    return Response(text, headers={"content-type": CONTENT_TYPE})


def _read(view: View, target: Target) -> list[Sample]:
    scraper = view.site.cached(("metrics", target.name, view.user.role), float("inf"), Scraper)
    is_up = True
    with scraper.lock:
        if monotonic() - scraper.read_at >= AGE_MIN_S:
            try:
                with view.reading(target) as conn:
                    scraper.samples = read_metrics(conn, scraper.memory)
                scraper.read_at = monotonic()
            except DatabaseUnavailable:
                scraper.samples, is_up = [], False
        return [*scraper.samples, Sample(metric_family("headrace_database_up"), (), float(is_up))]


ROUTES = (read("/metrics", show_metrics),)
