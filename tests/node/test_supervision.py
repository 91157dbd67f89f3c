"""Background loops of a node start again after an unexpected error, and the error is logged."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from headrace.db import Connection, Target
from headrace.node import Headrace, Node, action_workers, databases, registry

pytestmark = pytest.mark.lane("pg18")


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    ("loop", "function", "parameters", "result"),
    [
        ("heartbeat", "headrace.heartbeat", "uuid, jsonb", "true"),
        ("maintenance", "headrace_internal.trim_results", "", "1"),
        ("sweep", "headrace.bury_unhandled", "float8, text", "0"),
    ],
)
async def test_background_loop_starts_again_after_an_error(
    conn: Connection,
    database: Target,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    loop: str,
    function: str,
    parameters: str,
    result: str,
) -> None:
    """The function it calls is missing for a while, as during a manual migration."""
    for module, pause in (
        (registry, "HEARTBEAT_S"),
        (databases, "MAINTENANCE_S"),
        (action_workers, "SWEEP_S"),
    ):
        monkeypatch.setattr(module, pause, 0.05)
    running_node = Node(Headrace(), [database])
    running = asyncio.create_task(running_node.run())
    await until(lambda: conn.execute("select from headrace.node").fetchone() is not None)
    conn.execute(f"create table called (); alter function {function} rename to gone")
    await until(lambda: f"function {function}" in caplog.text)
    await asyncio.to_thread(
        conn.execute,
        f"""create function {function}({parameters}) returns {"boolean" if result == "true" else "integer"} language sql
            as 'insert into public.called default values; select {result}'""",
    )
    await until(lambda: conn.execute("select from called").fetchone() is not None)
    running_node.stop()
    await running
    assert f"function {function}" in caplog.text
