"""The tracing guide runs, and its spans are there."""

from __future__ import annotations

import pytest

from headrace.db import Connection, Target
from headrace.node import Headrace
from headrace.observe.tracing import set_tracing
from headrace.testing import Kit
from tests.docs.guide import run_guide
from tests.telemetry import span_exporter


@pytest.mark.lane("pg18")
async def test_tracing_guide_runs(database: Target, conn: Connection) -> None:
    exporter = span_exporter()
    exporter.clear()

    async def run_until_idle(app: Headrace) -> None:
        with Kit(database) as kit:
            await kit.run_until_idle(app)

    names = {"finished_spans": exporter.get_finished_spans, "run_until_idle": run_until_idle}
    try:
        assert (await run_guide("tracing", database, conn, names))["blocks_run"] == 5
    finally:
        set_tracing("off")
