"""docs/howto/testing.md runs: its tests, as pytest would run them with the fixtures of the plugin."""

from __future__ import annotations

from typing import Any

from headrace.db import Connection, Target
from headrace.testing import Kit
from tests.docs.guide import run_guide


async def test_testing_guide(conn: Connection, database: Target) -> None:
    names: dict[str, Any] = await run_guide("howto/testing", database, conn)
    names["setup"](conn)
    with Kit(database) as kit:
        await names["test_in_a_transaction"](kit.dsn)
        assert kit.events("orders") == []
        await names["test_large_order_is_reviewed"](kit)
        await names["test_order_is_shipped"](kit)
        await names["test_failed_review_is_retried_and_then_buried"](kit)
