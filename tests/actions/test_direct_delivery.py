"""Direct delivery: an action is delivered by its sender or by the queue, once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headrace.actions import list_attempts
from headrace.core import Conflict
from headrace.db import Connection
from headrace.node import Headrace
from tests.actions.conftest import Bench, Picky, make_due, run_dry, waiting, write

pytestmark = pytest.mark.lane("pg18")

Effects = Callable[[], list[object]]


async def test_directly_delivered_action_leaves_the_queue(conn: Connection, bench: Bench, effects: Effects) -> None:
    app = Headrace()
    app.handler("work")(write)
    async with bench.pool.connection() as tx:
        assert await app.deliver(tx, "work", 1)
    assert (effects(), waiting(conn)) == ([1], [])


async def test_queue_delivers_what_the_sender_could_not(conn: Connection, bench: Bench, effects: Effects) -> None:
    app = Headrace()
    app.handler("work", backoff_s=10)(Picky(1).handle)
    async with bench.pool.connection() as tx, tx.transaction():
        pending = await app.send_pending(tx, "work", 1)
    async with bench.pool.connection() as tx:
        assert not await app.deliver_pending(tx, pending)
    assert (effects(), waiting(conn)) == ([], [1])
    assert [(attempt.attempt, attempt.follows) for attempt in list_attempts(conn, [pending.id])] == [(0, "retry")]
    make_due(conn)
    await run_dry(bench.worker(write))
    assert effects() == [1]


async def test_pending_action_of_a_rolled_back_sender_is_not_delivered(conn: Connection, bench: Bench, effects: Effects) -> None:
    app = Headrace()
    app.handler("work")(write)
    async with bench.pool.connection() as tx:
        async with tx.transaction(force_rollback=True):
            pending = await app.send_pending(tx, "work", 1)
        assert not await app.deliver_pending(tx, pending)
    assert (effects(), waiting(conn)) == ([], [])


async def test_sender_that_is_too_late_does_not_repeat_the_work_of_the_queue(
    conn: Connection, bench: Bench, effects: Effects
) -> None:
    app = Headrace()
    app.handler("work")(write)
    async with bench.pool.connection() as tx:
        async with tx.transaction():
            pending = await app.send_pending(tx, "work", 1)
        assert await run_dry(bench.worker(write)) == 0, "the queue holds it for a while"
        make_due(conn)
        await run_dry(bench.worker(write))
        assert not await app.deliver_pending(tx, pending)
    assert effects() == [1]


async def test_action_without_a_handler_in_this_process_is_left_to_the_queue(conn: Connection, bench: Bench) -> None:
    async with bench.pool.connection() as tx:
        assert not await Headrace().deliver(tx, "work", 1)
    assert waiting(conn) == [1]


async def test_direct_delivery_inside_the_senders_transaction_is_rejected(conn: Connection, bench: Bench) -> None:
    app = Headrace()
    async with bench.pool.connection() as tx, tx.transaction():
        pending = await app.send_pending(tx, "work", 1)
        with pytest.raises(Conflict, match="commit the one that sent"):
            await app.deliver_pending(tx, pending)
