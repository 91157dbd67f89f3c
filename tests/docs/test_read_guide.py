"""The guide about reading events as tables runs as it is written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headrace.db import Connection, Target
from tests.builders import drain, topic
from tests.docs.guide import run_guide


@pytest.mark.lane("pg18")
async def test_read_guide_runs(database: Target, conn: Connection, tmp_path: Path) -> None:
    topic(conn)
    for key, type_, city, amount in (
        ("c1", "placed", "Zug", 150),
        ("c2", "placed", "Bern", 20),
        ("c2", "paid", "Bern", 200),
        ("c1", "placed", "Zug", 30),
    ):
        payload = json.dumps({"customer": {"city": city}, "amount": amount})
        conn.execute("select headrace.publish('orders', %s, %s::jsonb, p_key => %s)", (f"order.{type_}", payload, key))
    drain(conn)
    assert (await run_guide("read", database, conn, {"FOLDER": str(tmp_path)}))["blocks_run"] == 5
