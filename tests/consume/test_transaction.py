"""The handler's transaction: only headrace ends it. A handler that ends or breaks it has failed, as if it had raised."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Sequence

import psycopg
import pytest

from headrace.actions import list_dead_letters, redrive
from headrace.consume import Batch, Consumer, ConsumerRunner, Failure, consumer_lag
from headrace.core import LoggedEvent
from headrace.db import AsyncConnection, Connection
from tests.builders import fill, topic
from tests.consume.conftest import Start, run_dry

pytestmark = pytest.mark.lane("pg18")

BATCHES = [None, Batch(max=10)]
ENDS: dict[str, Callable[[Connection], object]] = {
    "commit": lambda tx: tx.commit(),
    "rollback": lambda tx: tx.rollback(),
    "commit-as-text": lambda tx: tx.execute("commit"),
    "rollback-as-text": lambda tx: tx.execute("rollback"),
    "commit-as-text-and-more": lambda tx: (tx.execute("commit"), tx.execute("select 1")),
    "raise-rollback": lambda tx: _raise(psycopg.Rollback()),
    "with": lambda tx: tx.__exit__(None, None, None),
    "close": lambda tx: tx.close(),
}
ASYNC_ENDS: dict[str, Callable[[AsyncConnection], Awaitable[object]]] = {
    "commit": lambda tx: tx.commit(),
    "rollback": lambda tx: tx.rollback(),
    "commit-as-text": lambda tx: tx.execute("commit"),
    "rollback-as-text": lambda tx: tx.execute("rollback"),
    "close": lambda tx: tx.close(),
}


def _raise(error: Exception) -> None:
    raise error


def last_payload(argument: LoggedEvent | Sequence[LoggedEvent]) -> object:
    return argument.payload if isinstance(argument, LoggedEvent) else argument[-1].payload


def consumer(handler: object, batch: Batch | None = None, failure: Failure | None = None, name: str = "c") -> Consumer:
    return Consumer(topic="orders", name=name, handler=handler, batch=batch, failure=failure or Failure.stop())  # type: ignore[arg-type]


async def stop_at(conn: Connection, runner: ConsumerRunner, name: str = "c") -> tuple[str, int, str]:
    """Runs until nothing is due; returns the consumer's state, its position and its error."""
    await run_dry(runner)
    (row,) = consumer_lag(conn, consumer=name)
    return row.state, row.position, row.error or ""


def sync_handler(end: Callable[[Connection], object]) -> object:
    def handle(argument: LoggedEvent | Sequence[LoggedEvent], tx: Connection) -> None:
        if last_payload(argument) == 3:
            end(tx)

    return handle


def async_handler(end: Callable[[AsyncConnection], Awaitable[object]]) -> object:
    async def handle(argument: LoggedEvent | Sequence[LoggedEvent], tx: AsyncConnection) -> None:
        if last_payload(argument) == 3:
            await end(tx)

    return handle


HANDLERS = {f"sync-{name}": sync_handler(end) for name, end in ENDS.items()} | {
    f"async-{name}": async_handler(end) for name, end in ASYNC_ENDS.items()
}
# The second is psycopg's own message, raised by the methods of an async connection.
MESSAGES = ("leave commit and rollback to headrace", "forbidden within a Transaction")


@pytest.mark.parametrize("batch", BATCHES)
async def test_handler_that_ends_its_transaction_has_failed(conn: Connection, start: Start, batch: Batch | None) -> None:
    topic(conn)
    fill(conn, 3)
    accepted = []
    for name, handler in HANDLERS.items():
        state, position, error = await stop_at(conn, await start(consumer(handler, batch, name=name)), name)
        if (state, position) != ("stopped", 2) or not any(message in error for message in MESSAGES):
            accepted.append((name, state, position, error))
    assert accepted == []


async def test_effects_lost_by_a_rollback_sent_as_text_are_made_again(conn: Connection, start: Start) -> None:
    """It undoes the effects of earlier events of the claim too, so the cursor may not pass them."""
    topic(conn)
    fill(conn, 3)
    conn.execute("create table effect (n int)")

    def handle(event: LoggedEvent, tx: Connection) -> None:
        tx.execute("insert into effect values (%s)", (event.payload,))
        if event.payload == 3:
            tx.execute("rollback")

    assert (await stop_at(conn, await start(consumer(handle))))[:2] == ("stopped", 2)
    assert conn.execute("select n from effect order by n").fetchall() == [(1,), (2,)]


@pytest.fixture
def once(conn: Connection) -> Callable[[], list[int]]:
    """Two tables that already have 3 and take no number twice, one by a deferred constraint; returns the numbers added."""
    conn.execute("create table once (n int primary key)")
    conn.execute("create table late (n int unique deferrable initially deferred)")
    conn.execute("insert into once values (3)")
    conn.execute("insert into late values (3)")
    return lambda: [
        row[0] for row in conn.execute("select n from once where n <> 3 union select n from late where n <> 3 order by n")
    ]


async def swallow(argument: LoggedEvent | Sequence[LoggedEvent], tx: AsyncConnection) -> None:
    for event in [argument] if isinstance(argument, LoggedEvent) else argument:
        try:
            await tx.execute("insert into once values (%s)", (event.payload,))
        except psycopg.errors.UniqueViolation:
            return


async def defer(argument: LoggedEvent | Sequence[LoggedEvent], tx: AsyncConnection) -> None:
    for event in [argument] if isinstance(argument, LoggedEvent) else argument:
        await tx.execute("insert into late values (%s)", (event.payload,))


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize(("handler", "message"), [(swallow, "the transaction is aborted"), (defer, "late_n_key")])
async def test_database_error_that_appears_after_the_handler_counts_as_its_failure(
    conn: Connection, start: Start, once: Callable[[], list[int]], handler: object, message: str, batch: Batch | None
) -> None:
    topic(conn)
    fill(conn, 5)
    failure = Failure.dead_letter(attempts=2, backoff_s=0.001, backoff_max_s=0.001)
    runner = await start(consumer(handler, batch, failure))
    for _ in range(12):
        conn.execute("update headrace_internal.cursor set retry_at = null")
        await runner.handle_once()
    (letter,) = list_dead_letters(conn)
    assert (letter.position, letter.state, letter.attempts) == (3, "dead", 2)
    assert message in (letter.error or "")
    assert once() == [1, 2, 4, 5]
    assert (consumer_lag(conn)[0].lag_events, runner.handled) == (0, 4)


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize(("handler", "message"), [(swallow, "the transaction is aborted"), (defer, "late_n_key")])
async def test_database_error_that_appears_after_a_redrive_leaves_the_letter_dead(
    conn: Connection, start: Start, once: Callable[[], list[int]], handler: object, message: str, batch: Batch | None
) -> None:
    topic(conn)
    fill(conn, 5)
    runner = await start(consumer(handler, batch, Failure.dead_letter(attempts=1)))
    await run_dry(runner)
    redrive(conn, ["orders/c"])
    assert await runner.redrive_once()
    assert not await runner.redrive_once()
    (letter,) = list_dead_letters(conn)
    assert (letter.position, letter.state, letter.attempts) == (3, "dead", 2)
    assert message in (letter.error or "")
    conn.execute("delete from once where n = 3")
    conn.execute("delete from late where n = 3")
    redrive(conn, ["orders/c"])
    assert await runner.redrive_once()
    assert list_dead_letters(conn) == []


async def test_redrive_whose_handler_ends_its_transaction_leaves_the_letter_dead(conn: Connection, start: Start) -> None:
    topic(conn)
    fill(conn, 1)
    for name, end in ENDS.items():
        handler = functools.partial(lambda end, _, tx: end(tx), end)
        runner = await start(consumer(handler, failure=Failure.dead_letter(attempts=1), name=name))
        await run_dry(runner)
        redrive(conn, [f"orders/{name}"])
        assert await runner.redrive_once()
    states = [(letter.source, letter.state, letter.attempts) for letter in list_dead_letters(conn)]
    assert states == [(f"orders/{name}", "dead", 2) for name in sorted(ENDS)]
