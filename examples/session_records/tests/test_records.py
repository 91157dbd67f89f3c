"""The session by itself: what waits runs in order, before the next query and at the end."""

from __future__ import annotations

from typing import Any, cast

import pytest
from headrace_session_records import KIND, Records


class Recorder:
    """In place of a connection: notes what runs."""

    def __init__(self) -> None:
        self.ran: list[tuple[str, object]] = []

    async def execute(self, statement: str, parameters: object) -> None:
        self.ran.append((statement, parameters))


async def test_what_waits_runs_in_order_at_the_end() -> None:
    conn = Recorder()
    async with KIND.open(cast(Any, conn), None) as records:
        records.later("first", id=1)
        records.later("second")
        assert conn.ran == []
    assert conn.ran == [("first", {"id": 1}), ("second", {})]


async def test_nothing_runs_after_an_error() -> None:
    conn = Recorder()
    with pytest.raises(ValueError, match="no"):
        async with KIND.open(cast(Any, conn), None) as records:
            records.later("first")
            raise ValueError("no")
    assert conn.ran == []


async def test_subclass_of_the_handler_is_what_it_gets() -> None:
    class Mine(Records):
        pass

    async with KIND.open(cast(Any, Recorder()), Mine) as records:
        assert type(records) is Mine
