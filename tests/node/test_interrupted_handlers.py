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
from headrace.observe.doctor import examine
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
        interrupt(action.payload)
        done.setdefault("awaited", []).append(action.payload)

    @app.consumer("orders", name="plain-events", failure=ATTEMPT, concurrency=1)
    def consume_plain(event: LoggedEvent, tx: Connection) -> None:
        interrupt(event.payload - 1)
        done.setdefault("plain-events", []).append(event.payload)

    @app.consumer("orders", name="awaited-batches", failure=ATTEMPT, concurrency=1, batch=Batch(max=20))
    async def consume_awaited(events: Sequence[LoggedEvent], tx: AsyncConnection) -> None:
        for event in events:
            interrupt(event.payload - 1)
        done.setdefault("awaited-batches", []).extend(event.payload for event in events)

    with conn.transaction():
        for number in range(8):
            send_action(conn, "plain", number)
            send_action(conn, "awaited", number)
    fill(conn, 8)
    async with app.running([database]) as node:
        await until(lambda: sum(map(len, done.values())) == 4 * 3)
        await until(lambda: len(list_dead_letters(conn)) == 4 * 5)
        assert node.health().is_healthy
    assert done == {name: [5, 6, 7] for name in ("plain", "awaited")} | {
        name: [6, 7, 8] for name in ("plain-events", "awaited-batches")
    }
    errors = {letter.error for letter in list_dead_letters(conn)}
    assert {f"{kind.__name__}: interrupted" for kind in INTERRUPTS if kind is not StopIteration} <= errors
    assert not any("HandlerInterrupted" in str(error) for error in errors)


async def test_event_whose_handler_always_ends_its_worker_becomes_a_dead_letter(
    conn: Connection, database: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.db.loops.pause_s", lambda failures: 0.0)
    topic(conn)
    fill(conn, 5)
    app, done = Headrace(), list[object]()

    @app.consumer("orders", name="c", failure=Failure.dead_letter(attempts=2, backoff_s=0.01, key_order="skip"), concurrency=1)
    async def handle(event: LoggedEvent, tx: AsyncConnection) -> None:
        if event.payload == 3:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(60)
        done.append(event.payload)

    async with app.running([database]):
        await until(lambda: [letter.attempts for letter in list_dead_letters(conn)] == [2])
        await until(lambda: done[-2:] == [4, 5])


class Silent(Exception):
    """An error that cannot say what happened."""

    def __str__(self) -> str:
        raise SystemExit


async def test_error_that_cannot_be_told_is_a_failure_of_its_handler(conn: Connection, database: Target) -> None:
    topic(conn)
    fill(conn, 2)
    app, done = Headrace(), list[object]()

    @app.consumer("orders", name="c", failure=ATTEMPT)
    async def handle(event: LoggedEvent, tx: AsyncConnection) -> None:
        if event.payload == 1:
            raise Silent
        done.append(event.payload)

    @app.handler("act", attempts=1)
    async def act(action: Action, tx: AsyncConnection) -> None:
        raise Silent

    send_action(conn, "act", 1)
    async with app.running([database]) as node:
        await until(lambda: done == [2] and len(list_dead_letters(conn)) == 2)
        assert node.health().is_healthy
    assert {letter.error for letter in list_dead_letters(conn)} == {"Silent: (its text cannot be made: SystemExit)"}


async def test_worker_that_was_ended_is_seen_by_log_health_and_doctor_and_starts_again(
    conn: Connection, database: Target, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.db.loops.pause_s", lambda failures: 0.5 if is_down else 0.0)
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
    monkeypatch.setattr("headrace.node.databases.CANCEL_S", 0.1)
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
