"""The handler's transaction: it is headrace's to end, and a handler that breaks or ends it has failed, as if it had raised."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import psycopg
import pytest

from headrace.consume import Batch, Consumer, ConsumerRunner, Failure, consumer_lag, list_dead_letters, redrive
from headrace.core import LoggedEvent
from headrace.db import AsyncConnection, Connection
from tests.builders import fill, topic
from tests.consume.conftest import Start, run_dry

BATCHES = [None, Batch(max=10)]
ENDS: dict[str, Callable[[Connection], object]] = {
    "commit": lambda tx: tx.commit(),
    "rollback": lambda tx: tx.rollback(),
    "commit as text": lambda tx: tx.execute("commit"),
    "rollback as text": lambda tx: tx.execute("rollback"),
    "commit as text, and on": lambda tx: (tx.execute("commit"), tx.execute("select 1")),
    "Rollback": lambda tx: _raise(psycopg.Rollback()),
    "with": lambda tx: tx.__exit__(None, None, None),
    "close": lambda tx: tx.close(),
}
ASYNC_ENDS: dict[str, Callable[[AsyncConnection], Awaitable[object]]] = {
    "commit": lambda tx: tx.commit(),
    "rollback": lambda tx: tx.rollback(),
    "commit as text": lambda tx: tx.execute("commit"),
    "rollback as text": lambda tx: tx.execute("rollback"),
}


def _raise(error: Exception) -> None:
    raise error


def last(given: LoggedEvent | Sequence[LoggedEvent]) -> object:
    return given.payload if isinstance(given, LoggedEvent) else given[-1].payload


def consumer(handler: object, batch: Batch | None = None, failure: Failure | None = None) -> Consumer:
    return Consumer(topic="orders", name="c", handler=handler, batch=batch, failure=failure or Failure.stop())  # type: ignore[arg-type]


async def assert_stops_at(conn: Connection, runner: ConsumerRunner, position: int) -> str:
    """Runs until nothing is due: all before the position is handled, the event there is not. Returns its error."""
    await run_dry(runner)
    (row,) = consumer_lag(conn)
    assert (row.state, row.position) == ("stopped", position - 1)
    return row.error or ""


def plain(end: Callable[[Connection], object]) -> object:
    def handle(given: LoggedEvent | Sequence[LoggedEvent], tx: Connection) -> None:
        if last(given) == 3:
            end(tx)

    return handle


def asynchronous(end: Callable[[AsyncConnection], Awaitable[object]]) -> object:
    async def handle(given: LoggedEvent | Sequence[LoggedEvent], tx: AsyncConnection) -> None:
        if last(given) == 3:
            await end(tx)

    return handle


HANDLERS = {f"plain: {name}": plain(end) for name, end in ENDS.items()} | {
    f"async: {name}": asynchronous(end) for name, end in ASYNC_ENDS.items()
}


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("name", HANDLERS)
async def test_handler_that_ends_its_transaction_has_failed(
    conn: Connection, start: Start, name: str, batch: Batch | None
) -> None:
    topic(conn)
    fill(conn, 3)
    error = await assert_stops_at(conn, await start(consumer(HANDLERS[name], batch)), 3)
    # The second is psycopg's own word, which the asynchronous connection has for its methods.
    assert "leave commit and rollback to headrace" in error or "forbidden within a Transaction" in error


async def test_effects_before_a_rollback_sent_as_text_are_made_again(conn: Connection, start: Start) -> None:
    """The text undoes what earlier events of the batch did, so the cursor may not pass them."""
    topic(conn)
    fill(conn, 3)
    conn.execute("create table effect (n int)")

    def handle(event: LoggedEvent, tx: Connection) -> None:
        tx.execute("insert into effect values (%s)", (event.payload,))
        if event.payload == 3:
            tx.execute("rollback")

    await assert_stops_at(conn, await start(consumer(handle)), 3)
    assert conn.execute("select n from effect order by n").fetchall() == [(1,), (2,)]


@pytest.fixture
def once(conn: Connection) -> Callable[[], list[int]]:
    """A table that has 3 already and takes no number twice, and the numbers that came to it; one with a deferred constraint."""
    conn.execute("create table once (n int primary key)")
    conn.execute("create table late (n int unique deferrable initially deferred)")
    conn.execute("insert into once values (3)")
    conn.execute("insert into late values (3)")
    return lambda: [
        row[0] for row in conn.execute("select n from once where n <> 3 union select n from late where n <> 3 order by n")
    ]


async def swallow(given: LoggedEvent | Sequence[LoggedEvent], tx: AsyncConnection) -> None:
    for event in [given] if isinstance(given, LoggedEvent) else given:
        try:
            await tx.execute("insert into once values (%s)", (event.payload,))
        except psycopg.errors.UniqueViolation:
            return


async def defer(given: LoggedEvent | Sequence[LoggedEvent], tx: AsyncConnection) -> None:
    for event in [given] if isinstance(given, LoggedEvent) else given:
        await tx.execute("insert into late values (%s)", (event.payload,))


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize(("handler", "told"), [(swallow, "the transaction is aborted"), (defer, "late_n_key")])
async def test_database_error_that_shows_after_the_handler_is_its_failure(
    conn: Connection, start: Start, once: Callable[[], list[int]], handler: object, told: str, batch: Batch | None
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
    assert told in (letter.error or "")
    assert once() == [1, 2, 4, 5]
    assert (consumer_lag(conn)[0].lag_events, runner.handled) == (0, 4)


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize(("handler", "told"), [(swallow, "the transaction is aborted"), (defer, "late_n_key")])
async def test_database_error_that_shows_after_a_redrive_leaves_the_letter_dead(
    conn: Connection, start: Start, once: Callable[[], list[int]], handler: object, told: str, batch: Batch | None
) -> None:
    topic(conn)
    fill(conn, 5)
    runner = await start(consumer(handler, batch, Failure.dead_letter(attempts=1)))
    await run_dry(runner)
    redrive(conn, "orders", "c")
    assert await runner.redrive_once()
    assert not await runner.redrive_once()
    (letter,) = list_dead_letters(conn)
    assert (letter.position, letter.state, letter.attempts) == (3, "dead", 2)
    assert told in (letter.error or "")
    conn.execute("delete from once where n = 3")
    conn.execute("delete from late where n = 3")
    redrive(conn, "orders", "c")
    assert await runner.redrive_once()
    assert list_dead_letters(conn) == []


@pytest.mark.parametrize("end", ENDS)
async def test_redrive_whose_handler_ends_its_transaction_leaves_the_letter_dead(
    conn: Connection, start: Start, end: str
) -> None:
    topic(conn)
    fill(conn, 1)
    runner = await start(consumer(lambda _, tx: ENDS[end](tx), failure=Failure.dead_letter(attempts=1)))
    await run_dry(runner)
    redrive(conn, "orders", "c")
    assert await runner.redrive_once()
    assert [(letter.state, letter.attempts) for letter in list_dead_letters(conn)] == [("dead", 2)]
