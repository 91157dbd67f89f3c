"""Calls after the commit happen if and only if the handler's transaction commits, and at least once."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pydantic
import pytest

from headrace import Action, Conflict, Headrace, Invalid, InvalidHandler, Target, connect_async
from headrace.actions import ActionWorker, build_worker_pools, list_dead_letters, list_results
from headrace.db import Connection, StopSignal, Subscription
from tests.actions.conftest import Bench, make_due, run_dry, waiting

pytestmark = pytest.mark.lane("pg18")

ID = UUID("0190b2f0-7e3a-7000-8000-000000000001")
sent: list[Any] = []


class Address(pydantic.BaseModel):
    street: str


async def send_mail(to: str, amount: Decimal, *, order: UUID | None = None, at: datetime | None = None) -> None:
    sent.append((to, amount, order, at))


def call_plain(address: Address, tags: list[str] = []) -> None:  # noqa: B006
    sent.append((address, tags))


@pytest.fixture(autouse=True)
def forget() -> None:
    sent.clear()


def workers(bench: Bench, app: Headrace) -> list[ActionWorker]:
    pools = build_worker_pools(app.action_handlers.values())
    return [
        ActionWorker(pool, bench.queue, bench.pool, bench.leases, Subscription("headrace_action"), StopSignal()) for pool in pools
    ]


async def test_call_is_made_after_the_commit_with_the_types_of_its_parameters(conn: Connection, bench: Bench) -> None:
    app = Headrace()
    mail = app.after_commit()(send_mail)
    seen_inside: list[int] = []

    @app.handler("work")
    async def work(action: Action, tx: Any) -> None:
        at = datetime.fromisoformat("2026-01-31T12:00:00+00:00")
        await mail.after_commit(tx, "ada", amount=Decimal("12345678901234567.123456789"), order=ID, at=at)
        await mail.after_commit(tx, "bob", Decimal(1))
        seen_inside.append(len(sent))

    conn.execute("select headrace.send_action('work')")
    for worker in workers(bench, app):
        await run_dry(worker)
    for worker in workers(bench, app):
        await run_dry(worker)
    assert seen_inside == [0]
    at = datetime.fromisoformat("2026-01-31T12:00:00+00:00")
    assert sent == [("ada", Decimal("12345678901234567.123456789"), ID, at), ("bob", Decimal(1), None, None)]


async def test_call_of_a_handler_that_fails_is_never_made(conn: Connection, bench: Bench) -> None:
    app = Headrace()
    mail = app.after_commit()(send_mail)

    @app.handler("work", attempts=1)
    def work(action: Action, tx: Any) -> None:
        mail.after_commit(tx, "ada", Decimal(1))
        raise ValueError("no")

    conn.execute("select headrace.send_action('work')")
    for _ in range(2):
        for worker in workers(bench, app):
            await run_dry(worker)
    assert sent == [] and waiting(conn) == []


async def test_failed_call_is_retried_alone_and_ends_as_a_dead_letter(conn: Connection, bench: Bench) -> None:
    app = Headrace()
    calls: list[str] = []

    @app.after_commit(attempts=3, name="hook")
    async def hook(to: str) -> None:
        calls.append(to)
        if to == "down":
            raise ConnectionError("no route")

    with conn.transaction():
        ids = [hook.after_commit(conn, to=to) for to in ("up", "down", "also up")]
    (worker,) = workers(bench, app)
    for _ in range(3):
        make_due(conn)
        await run_dry(worker)
    assert sorted(calls) == ["also up", "down", "down", "down", "up"]  # No neighbour's call was repeated.
    [letter] = list_dead_letters(conn)
    assert (letter.name, letter.payload, letter.error) == ("after-commit:hook", {"to": "down"}, "ConnectionError: no route")
    assert [(result.action_id, result.outcome) for result in list_results(conn, ids[:1])] == [(ids[0], "done")]


async def test_plain_function_with_defaults_and_pydantic_parameters(conn: Connection, bench: Bench) -> None:
    app = Headrace()
    call = app.after_commit(timeout_s=5)(call_plain)
    call.after_commit(conn, {"street": "Main"})  # type: ignore[arg-type]
    (worker,) = workers(bench, app)
    await run_dry(worker)
    assert sent == [(Address(street="Main"), [])]
    call(Address(street="Direct"))
    assert sent[-1] == (Address(street="Direct"), [])


async def test_arguments_are_checked_when_the_call_is_recorded(conn: Connection, database: Target) -> None:
    app = Headrace()
    mail = app.after_commit()(send_mail)
    with pytest.raises(TypeError, match="missing a required argument: 'amount'"):
        mail.after_commit(conn, "ada")  # type: ignore[call-overload]
    with pytest.raises(Invalid, match="has no JSON form"):
        mail.after_commit(conn, "ada", amount=object())
    with pytest.raises(Invalid, match="is not a connection"):
        mail.after_commit(object(), "ada", Decimal(1))
    async with await connect_async(database) as other:
        await mail.after_commit(other, "eve", Decimal(1))
    assert [message["to"] for message in waiting(conn)] == ["eve"]  # type: ignore[index, call-overload]


async def test_arguments_that_no_longer_fit_fail_clearly(conn: Connection, bench: Bench) -> None:
    """The function was changed while calls of its old form waited."""
    app = Headrace()
    app.after_commit(attempts=2)(send_mail)
    conn.execute("""select headrace.send_action('after-commit:send_mail', '{"to": 5, "amount": 1}')""")
    (worker,) = workers(bench, app)
    await worker.handle_once()
    [(error,)] = conn.execute("select error from headrace.attempt").fetchall()
    assert error.startswith("PayloadMismatch: the payload of action after-commit:send_mail ") and "$.to" in error


def test_functions_that_cannot_be_recorded_are_rejected() -> None:
    app = Headrace()
    with pytest.raises(InvalidHandler, match=r"has the parameter \*args"):
        app.after_commit()(lambda *args: None)
    app.after_commit()(send_mail)
    with pytest.raises(Conflict, match="exists twice"):
        app.after_commit()(send_mail)
