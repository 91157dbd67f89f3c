"""The guide about correlators runs as it is written."""

from __future__ import annotations

import pytest

from headrace.db import Connection, Target

from .guide import run_guide


@pytest.mark.lane("pg18")
async def test_correlators_guide_runs(database: Target, conn: Connection) -> None:
    assert (await run_guide("correlators", database, conn))["blocks_run"] == 6
