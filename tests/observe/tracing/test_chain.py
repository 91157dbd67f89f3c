"""A chain through real processes: request → publish → rule → action → handler → publish → consumer, as one trace or as linked ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from headrace.db import Connection, Target
from headrace.observe.history import event_history
from headrace.rules import Rule, create_rule
from tests.builders import ROOT, wait_until

pytestmark = pytest.mark.lane("pg18")


@dataclass(frozen=True)
class Recorded:
    """A span as a process wrote it: its process, ids in hexadecimal, and those it links to."""

    process: str
    trace_id: str
    span_id: str
    parent_id: str | None
    links: list[tuple[str, str]]
    kind: str

    @property
    def place(self) -> tuple[str, str]:
        return self.trace_id, self.span_id


@contextmanager
def process(role: str, database: Target, folder: Path, mode: str) -> Iterator[subprocess.Popen[bytes]]:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "HEADRACE_TRACING": mode}
    command = [sys.executable, "-m", "tests.observe.tracing.processes", role, database.dsn, str(folder / role)]
    with (folder / f"{role}.log").open("wb") as log:
        running = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)
    try:
        yield running
    finally:
        running.terminate()
        running.wait(30)


def read_spans(folder: Path) -> dict[str, Recorded]:
    """The spans of all processes by their names, which must differ."""
    spans: dict[str, Recorded] = {}
    for role in ("request", "biller", "archivist"):
        for line in (folder / role).read_text().splitlines():
            span: dict[str, Any] = json.loads(line)
            name, context = span["name"], span["context"]
            if name != "start":
                assert name not in spans, f"{name} twice"
                links = [(link["context"]["trace_id"], link["context"]["span_id"]) for link in span["links"]]
                spans[name] = Recorded(role, context["trace_id"], context["span_id"], span["parent_id"], links, span["kind"])
    return spans


def has_bill(conn: Connection) -> bool:
    return bool(conn.execute("select 1 from bill").fetchall())


@pytest.mark.parametrize("mode", ["on", pytest.param("parent", marks=pytest.mark.slow)])
def test_chain_through_processes_is_traced_from_end_to_end(mode: str, conn: Connection, database: Target, tmp_path: Path) -> None:
    conn.execute("select headrace.create_topic(name) from unnest(array['orders', 'bills']) name")
    conn.execute("create table bill (id uuid)")
    condition = "(object ->> 'total')::int > 100"
    create_rule(conn, Rule(name="large", topic="orders", event_type="placed", action="BILL", condition=condition))
    with process("biller", database, tmp_path, mode), process("archivist", database, tmp_path, mode):
        with process("request", database, tmp_path, mode) as request:
            assert request.wait(60) == 0, (tmp_path / "request.log").read_text()
        wait_until(lambda: has_bill(conn), "the chain")
    spans = read_spans(tmp_path)
    posted, placed = spans["POST /orders"], spans["publish orders"]
    handled, billed = spans["process BILL"], spans["publish bills"]
    consumed, stored = spans["process bills"], spans["store"]
    assert set(spans) == {"POST /orders", "publish orders", "process BILL", "publish bills", "process bills", "store"}
    processes = [span.process for span in (posted, placed, handled, billed, consumed, stored)]
    assert processes == ["request", "request", "biller", "biller", "archivist", "archivist"]
    assert [span.kind for span in (placed, handled, billed, consumed)] == [
        "SpanKind.PRODUCER", "SpanKind.CONSUMER", "SpanKind.PRODUCER", "SpanKind.CONSUMER",
    ]  # fmt: skip
    # Within a process: parent and child. Between processes: a link to the publisher's span.
    assert (placed.trace_id, placed.parent_id) == posted.place
    assert (billed.trace_id, billed.parent_id) == (handled.trace_id, handled.span_id)
    assert (stored.trace_id, stored.parent_id) == (consumed.trace_id, consumed.span_id)
    assert (posted.links, placed.links, handled.links, billed.links, consumed.links, stored.links) == (
        [], [], [placed.place], [], [billed.place], [],
    )  # fmt: skip
    if mode == "on":
        assert (posted.parent_id, handled.parent_id, consumed.parent_id) == (None, None, None)
        assert len({posted.trace_id, handled.trace_id, consumed.trace_id}) == 3, "linked traces"
    else:
        assert (handled.parent_id, consumed.parent_id) == (placed.span_id, billed.span_id)
        assert {span.trace_id for span in spans.values()} == {posted.trace_id}, "one trace"
    [(event_id,)] = conn.execute("select event_id from headrace.log where topic_id = headrace.topic_id('orders')").fetchall()
    [history] = event_history(conn, event_id)
    assert f"0x{history.trace_id}" == posted.trace_id, "headrace trace shows the same trace"
