"""What handlers can ask for works with every kind of session: types for payloads, timeouts, outcomes, calls after the commit."""

from __future__ import annotations

import asyncio
import functools
import inspect
import time
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from django.db.backends.base.base import BaseDatabaseWrapper
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from headrace import Action, Bury, Discard, Failure, Headrace, LoggedEvent
from headrace.actions import list_dead_letters
from headrace.consume import consumer_lag
from headrace.db import Connection
from tests.actions.conftest import run_dry as run_worker_dry
from tests.builders import drain, fill, topic
from tests.consume.conftest import run_dry
from tests.integrations.conftest import KINDS, Bench
from tests.integrations.models import django_effect

pytestmark = pytest.mark.lane("pg18")

AMOUNT = "12345678901234567.123456789"


class Order(msgspec.Struct):
    amount: Decimal


def typed(handler: Callable[..., Any], before: Callable[[Any, Any], Any], item: object) -> Callable[..., Any]:
    """A handler with the session of another one, and with an annotation for the item."""
    if inspect.iscoroutinefunction(handler):

        async def call_async(item: Any, session: Any) -> None:
            if inspect.isawaitable(result := before(item, session)):
                await result

        call: Callable[..., Any] = call_async
    else:

        def call(item: Any, session: Any) -> None:
            before(item, session)

    annotation = list(inspect.signature(handler, eval_str=True).parameters.values())[1].annotation
    call.__annotations__ = {"item": item, "session": annotation}
    return call


@pytest.mark.parametrize("kind", KINDS)
async def test_typed_payload_has_all_digits(bench: Bench, conn: Connection, kind: str) -> None:
    topic(conn)
    conn.execute(
        "select headrace.publish('orders', 'placed', %s::jsonb, p_headers => '{\"trace\": \"t\"}')", (f'{{"amount": {AMOUNT}}}',)
    )
    drain(conn)
    conn.execute("select headrace.send_action('work', %s::jsonb)", (f'{{"amount": {AMOUNT}}}',))
    sessions = bench.sessions(kind)
    app = Headrace(session=sessions.option)
    seen: list[Any] = []
    app.consumer("orders", name="c")(typed(sessions.handler, lambda item, _tx: seen.append(item), LoggedEvent[Order]))
    app.handler("work")(typed(sessions.handler, lambda item, _tx: seen.append(item), Action[Order]))
    await run_dry(await bench.runner(app))
    await run_worker_dry(bench.worker(app))
    assert [item.payload for item in seen] == [Order(Decimal(AMOUNT))] * 2
    assert seen[0].headers == {"trace": "t"}


@pytest.mark.parametrize("kind", KINDS)
async def test_outcomes_undo_the_effect_of_their_event_only(bench: Bench, conn: Connection, kind: str) -> None:
    topic(conn)
    fill(conn, 4)
    sessions = bench.sessions(kind)
    app = Headrace(session=sessions.option)

    def judge(n: object) -> None:
        if n == 2:
            raise Discard("not for us")
        if n == 3:
            raise Bury("nobody can handle it")

    app.consumer("orders", name="c", failure=Failure.dead_letter(attempts=5))(after(sessions.handler, judge))
    await run_dry(await bench.runner(app))
    assert bench.effects() == [1, 4]
    assert [(letter.payload, letter.attempts) for letter in list_dead_letters(conn)] == [(3, 1)]
    assert consumer_lag(conn)[0].lag_events == 0


def after(handler: Callable[..., Any], judge: Callable[[object], None]) -> Callable[..., Any]:
    """The handler, then a function of the payload."""
    if inspect.iscoroutinefunction(handler):

        @functools.wraps(handler)
        async def call_async(item: Any, session: Any) -> None:
            await handler(item, session)
            judge(item.payload)

        return call_async

    @functools.wraps(handler)
    def call(item: Any, session: Any) -> None:
        handler(item, session)
        judge(item.payload)

    return call


SLEEP = "select pg_sleep(20)"


def sleep(session: Any) -> Any:
    """Runs a slow statement, with whatever session this is."""
    if isinstance(session, AsyncSession | Session):
        return session.execute(text(SLEEP))
    if isinstance(session, BaseDatabaseWrapper):
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return django_effect("").objects.raw("select 1 as id, 1 as n, '' as writer, pg_sleep(20)")[0]
        return django_effect("").objects.extra(where=["pg_sleep(20) is null"]).acount()
    return session.execute(SLEEP)


@pytest.mark.parametrize("kind", KINDS)
async def test_timeout_ends_a_slow_statement_and_the_session_goes_on(bench: Bench, conn: Connection, kind: str) -> None:
    """Event 2 runs for too long after its effect; the others have theirs, on the same connection."""
    topic(conn)
    fill(conn, 3)
    conn.execute("insert into effect (n) values (0)")
    sessions = bench.sessions(kind)
    app = Headrace(session=sessions.option)
    handler = sessions.handler

    def handle(item: Any, session: Any) -> None:
        handler(item, session)
        if item.payload == 2:
            sleep(session)

    async def handle_async(item: Any, session: Any) -> None:
        await handler(item, session)  # type: ignore[misc]
        if item.payload == 2:
            await sleep(session)

    wrapper = functools.wraps(handler)(handle_async if inspect.iscoroutinefunction(handler) else handle)
    app.consumer("orders", name="c", failure=Failure.dead_letter(attempts=1), timeout_s=0.3)(wrapper)
    started = time.monotonic()
    runner = await bench.runner(app)
    await run_dry(runner)
    assert time.monotonic() - started < 10
    assert bench.effects() == [0, 1, 3]
    [letter] = list_dead_letters(conn)
    assert letter.payload == 2 and letter.error.startswith("HandlerTimeout")


@pytest.mark.parametrize("kind", KINDS)
async def test_call_after_commit_is_recorded_on_the_session(bench: Bench, conn: Connection, kind: str) -> None:
    """Event 2 fails after it has recorded its call, so that call is never made."""
    topic(conn)
    fill(conn, 3)
    sessions = bench.sessions(kind)
    app = Headrace(session=sessions.option)
    sent: list[int] = []

    @app.after_commit()
    async def send_mail(n: int) -> None:
        sent.append(n)

    def record(item: Any, session: Any) -> None:
        send_mail.after_commit(session, item.payload)
        assert item.payload != 2

    async def record_async(item: Any, session: Any) -> None:
        if isinstance(session, BaseDatabaseWrapper):
            from asgiref.sync import sync_to_async

            await sync_to_async(send_mail.after_commit)(session, item.payload)
        else:
            await send_mail.after_commit(session, item.payload)
        assert item.payload != 2

    wrapper = functools.wraps(sessions.handler)(record_async if inspect.iscoroutinefunction(sessions.handler) else record)
    app.consumer("orders", name="c", failure=Failure.dead_letter(attempts=1))(wrapper)
    await run_dry(await bench.runner(app))
    assert sent == []
    await run_worker_dry(bench.worker(app))
    assert sorted(sent) == [1, 3]
