"""The guide about schemas runs as it is written."""

from __future__ import annotations

import pytest

from headrace.db import Connection, Target

from .guide import run_guide


@pytest.mark.lane("pg18")
async def test_schemas_guide_runs(database: Target, conn: Connection) -> None:
    assert (await run_guide("schemas", database, conn))["blocks_run"] == 5
