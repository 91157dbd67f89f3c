"""The guide about relays to brokers runs as it is written."""

from __future__ import annotations

import pytest

from headrace.db import Connection, Target
from headrace.relays import list_relays
from headrace.relays.targets import TARGETS

from .guide import run_guide


@pytest.mark.lane("pg18")
async def test_relay_targets_guide_runs(database: Target, conn: Connection) -> None:
    assert (await run_guide("relay-targets", database, conn))["blocks_run"] == 5
    assert {state.relay.target for state in list_relays(conn)} == {*TARGETS.own} - {"webhook", "postgres"}
