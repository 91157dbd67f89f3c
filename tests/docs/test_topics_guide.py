"""The guide to topics and retention runs."""

from __future__ import annotations

from headrace.db import Connection, Target
from tests.docs.guide import run_guide


async def test_topics_guide_runs(database: Target, conn: Connection) -> None:
    assert (await run_guide("topics", database, conn))["blocks_run"] == 5
