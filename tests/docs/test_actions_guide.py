"""The guide to actions runs."""

from __future__ import annotations

from headrace.db import Connection, Target
from tests.docs.guide import run_guide


async def test_actions_guide_runs(database: Target, conn: Connection) -> None:
    assert (await run_guide("actions", database, conn))["blocks_run"] >= 6
