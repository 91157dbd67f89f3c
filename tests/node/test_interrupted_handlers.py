"""A handler that raises what is no Exception has failed, like any other: its worker goes on. An ended worker is seen and starts again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from headrace.actions import Action, list_dead_letters, send_action
from headrace.consume import Batch, Failure
from headrace.core import LoggedEvent
from headrace.db import AsyncConnection, Connection, Target
from headrace.node import Headrace, Node
from headrace.observe import examine
from tests.builders import fill, topic

pytestmark = pytest.mark.lane("pg18")

INTERRUPTS: Sequence[type[BaseException]] = (asyncio.CancelledError, SystemExit, KeyboardInterrupt, StopIteration, GeneratorExit)
ATTEMPT = Failure.dead_letter(attempts=1, key_order="skip")


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.02)


def interrupt(number: Any) -> None:
    """Raises for the numbers 0 to 4."""
    if number < len(INTERRUPTS):
        raise INTERRUPTS[number]("interrupted")


async def test_handler_that_raises_no_exception_has_failed_and_its_worker_goes_on(conn: Connection, database: Target) -> None:
    topic(conn)
    app, done = Headrace(), dict[str, list[Any]]()

    @app.handler("plain", attempts=1, concurrency=1)
    def handle_plain(action: Action, tx: Connection) -> None:
        interrupt(action.payload)
        done.setdefault("plain", []).append(action.payload)

    @app.handler("awaited", attempts=1, concurrency=1)
    async def handle_awaited(action: Action, tx: AsyncConnection) -> None:
        if INTERRUPTS[action.payload % 5] is not GeneratorExit:  # Whoever closes a coroutine raises that one in it.
            interrupt(action.payload)
        done.setdefault("awaited", []).append(action.payload)

    @app.consumer("orders", name="plain-events", failure=ATTEMPT, concurrency=1)
    def consume_plain(event: LoggedEvent, tx: Connection) -> None:
        interrupt(event.payload - 1)
        done.setdefault("plain-events", []).append(event.payload)

    @app.consumer("orders", name="awaited-batches", failure=ATTEMPT, concurrency=1, batch=Batch(max=20))
    async def consume_awaited(events: Sequence[LoggedEvent], tx: AsyncConnection) -> None:
        for event in events:
            interrupt(min(event.payload - 1, 5) if event.payload != 5 else 5)
        done.setdefault("awaited-batches", []).extend(event.payload for event in events)

    with conn.transaction():
        for number in range(8):
            send_action(conn, "plain", number)
            send_action(conn, "awaited", number)
    fill(conn, 8)
    async with app.running([database]) as node:
        await until(lambda: sum(map(len, done.values())) == 3 + 4 + 3 + 4)
        await until(lambda: len(list_dead_letters(conn)) == 5 + 4 + 5 + 4)
        assert node.health().is_healthy
    assert done == {
        "plain": [5, 6, 7],
        "awaited": [4, 5, 6, 7],
        "plain-events": [6, 7, 8],
        "awaited-batches": [5, 6, 7, 8],
    }
    errors = {letter.error for letter in list_dead_letters(conn)}
    assert {f"{kind.__name__}: interrupted" for kind in INTERRUPTS if kind is not StopIteration} <= errors
    assert not any("HandlerInterrupted" in str(error) for error in errors)


async def test_worker_that_was_ended_is_seen_by_log_health_and_doctor_and_starts_again(
    conn: Connection, database: Target, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.db.retry.pause_s", lambda failures: 0.5 if is_down else 0.0)
    topic(conn)
    app, is_down, done = Headrace(), True, list[object]()

    @app.handler("end", concurrency=1, attempts=100)
    async def end(action: Action, tx: AsyncConnection) -> None:
        if is_down:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(60)
        done.append(action.payload)

    send_action(conn, "end", 1)
    async with app.running([database]) as node:
        await until(lambda: not node.health().is_healthy)
        (failure,) = node.health().failures
        assert failure.loop == "actions end: actions" and "was cancelled" in failure.error
        await until(lambda: any("was cancelled" in check.message for check in examine(database) if check.level != "ok"))
        is_down = False
        await until(lambda: done == [1] and node.health().is_healthy)
    assert "actions end: actions failed: RuntimeError: the loop was cancelled" in caplog.text


async def test_node_ends_after_the_grace_time_although_a_handler_ignores_it_and_gives_its_actions_back(
    conn: Connection, database: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.node.node.CANCEL_S", 0.1)
    app, is_called, is_stubborn = Headrace(), asyncio.Event(), True

    @app.handler("ignore")
    async def ignore(action: Action, tx: AsyncConnection) -> None:
        is_called.set()
        while is_stubborn:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                continue

    send_action(conn, "ignore", 1)
    node = Node(app, [database], grace_s=0.1)
    running = asyncio.create_task(node.run())
    await asyncio.wait_for(is_called.wait(), 30)
    node.stop()
    await asyncio.wait_for(asyncio.shield(running), 30)
    assert node.is_overdue
    assert conn.execute("select vt <= headrace.clock() from pgmq.q_hr_default").fetchall() == [(True,)]
    assert conn.execute("select state from headrace.node_state").fetchall() == [("stopped",)]
    is_stubborn = False
