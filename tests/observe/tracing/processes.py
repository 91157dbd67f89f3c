"""Real processes of one chain, each started as `python -m tests.observe.tracing.processes ROLE DSN FILE` with HEADRACE_TRACING in the
environment: a request that publishes, a node with a rule's handler that publishes, and a node with a consumer. Each writes its spans
to its file, one JSON object per line."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import psycopg
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

from headrace.actions import Action
from headrace.core import LoggedEvent
from headrace.db import AsyncConnection, Target
from headrace.log.outbox import publish, publish_async
from headrace.node import Headrace, Node


class FileExporter(SpanExporter):
    """Writes the spans that have ended to a file."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        for span in spans:
            self._file.write(json.dumps(json.loads(span.to_json())) + "\n")
        self._file.flush()
        return SpanExportResult.SUCCESS


def request(dsn: str) -> None:
    """A web request that publishes an order."""
    with psycopg.connect(dsn) as conn, trace.get_tracer("shop").start_as_current_span("POST /orders"):
        publish(conn, "orders", "placed", {"total": 120}, key="k1")


def biller(dsn: str) -> None:
    """A node that sequences, runs the rule, and bills by its action."""
    app = Headrace()

    @app.handler("BILL")
    async def bill(action: Action, tx: AsyncConnection) -> None:
        await publish_async(tx, "bills", "billed", {"total": 120}, key=action.key)

    run(app, dsn, sequencer=True)


def archivist(dsn: str) -> None:
    """A node that consumes the bills."""
    app = Headrace()

    @app.consumer("bills")
    def store(event: LoggedEvent, tx: psycopg.Connection[object]) -> None:
        with trace.get_tracer("shop").start_as_current_span("store"):
            tx.execute("insert into bill values (%s)", (event.id,))

    run(app, dsn, sequencer=False)


def run(app: Headrace, dsn: str, *, sequencer: bool) -> None:
    async def run_node() -> None:
        node = Node(app, [Target("main", dsn)], sequencer=sequencer)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, node.stop)
        await node.run()

    # As a framework would: whatever is current here must not become the parent of everything.
    with trace.get_tracer("shop").start_as_current_span("start"):
        asyncio.run(run_node())


if __name__ == "__main__":
    role, dsn, file = sys.argv[1:]
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(FileExporter(Path(file).open("a", encoding="utf-8"))))  # noqa: SIM115
    trace.set_tracer_provider(provider)
    {"request": request, "biller": biller, "archivist": archivist}[role](dsn)
