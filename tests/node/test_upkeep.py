"""Upkeep of a node goes on after an error that waiting does not explain, and the log tells of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from headrace.db import Connection, Target
from headrace.node import Headrace, Node
from headrace.node import node as _node
from headrace.node import registry as _registry
from headrace.node import supervision as _upkeep
from headrace.node import sweep as _sweep

pytestmark = pytest.mark.lane("pg18")


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    ("upkeep", "function", "given", "result"),
    [
        ("heartbeat", "heartbeat", "uuid", "true"),
        ("maintenance", "trim_results", "", "1"),
        ("sweep", "bury_unhandled", "float8, text", "0"),
    ],
)
async def test_upkeep_goes_on_after_an_error(
    conn: Connection,
    database: Target,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    upkeep: str,
    function: str,
    given: str,
    result: str,
) -> None:
    """The function it calls is not there for a while, as in the middle of a migration by hand."""
    for room, pause in ((_registry, "HEARTBEAT_S"), (_node, "MAINTAIN_S"), (_sweep, "SWEEP_S"), (_upkeep, "AGAIN_S")):
        monkeypatch.setattr(room, pause, 0.05)
    conn.execute(f"create table called (); alter function headrace_internal.{function} rename to gone")
    node = Node(Headrace(), [database])
    running = asyncio.create_task(node.run())
    await until(lambda: f"{upkeep} of {database}" in caplog.text)
    await asyncio.to_thread(
        conn.execute,
        f"""create function headrace_internal.{function}({given}) returns {"boolean" if result == "true" else "integer"} language sql
            as 'insert into called default values; select {result}'""",
    )
    await until(lambda: conn.execute("select from called").fetchone() is not None)
    node.stop()
    await running
    assert f"function headrace_internal.{function}" in caplog.text
