"""The guide about relays runs as it is written."""

from __future__ import annotations

import pytest

from headrace.db import Connection, Target
from headrace.relays import list_relays

from .guide import run_guide


@pytest.mark.lane("pg18")
async def test_relays_guide_runs(database: Target, conn: Connection) -> None:
    assert (await run_guide("relays", database, conn))["blocks_run"] == 6
    assert [state.relay.name for state in list_relays(conn)] == ["all-orders", "crm", "warehouse"]
