"""Payloads arrive as what the handler asks for, and no digit is lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, TypedDict
from uuid import UUID

import msgspec
import pydantic
import pytest

from headrace import Batch, Failure, Headrace, Invalid, LoggedEvent
from headrace.actions import list_dead_letters
from headrace.consume import consumer_lag
from headrace.db import Connection
from tests.builders import drain, topic
from tests.consume.conftest import Start, run_dry

pytestmark = pytest.mark.lane("pg18")

ID = "0190b2f0-7e3a-7000-8000-000000000001"
AMOUNT = "12345678901234567.123456789"
ORDER = f'{{"id": "{ID}", "at": "2026-01-31T12:00:00Z", "amount": {AMOUNT}, "rate": 0.5}}'


class Model(pydantic.BaseModel):
    id: UUID
    at: datetime
    amount: Decimal
    rate: float


class Struct(msgspec.Struct):
    id: UUID
    at: datetime
    amount: Decimal
    rate: float


@dataclass
class Data:
    id: UUID
    at: datetime
    amount: Decimal
    rate: float


class Mapping(TypedDict):
    id: UUID
    at: datetime
    amount: Decimal
    rate: float


@dataclass
class Nested:
    order: Model


got: list[Any] = []


async def to_model(event: LoggedEvent[Model], tx):
    got.append(event.payload)


def to_struct(event: LoggedEvent[Struct], tx):
    got.append(event.payload)


async def to_data(event: LoggedEvent[Data], tx):
    got.append(event.payload)


async def to_mapping(event: LoggedEvent[Mapping], tx):
    got.append(event.payload)


async def to_models(events: Sequence[LoggedEvent[Model]], tx):
    got.extend(event.payload for event in events)


async def to_nested(event: LoggedEvent[Nested], tx):
    got.append(event.payload.order)


async def to_json(event: LoggedEvent, tx):
    got.append(event)


def send(conn: Connection, payload: str = ORDER, *, headers: str = "{}") -> None:
    conn.execute("select headrace.publish('orders', 'placed', %s::jsonb, p_headers => %s::jsonb)", (payload, headers))
    drain(conn)


@pytest.fixture(autouse=True)
def forget() -> None:
    got.clear()


@pytest.mark.parametrize("handler", [to_model, to_struct, to_data, to_mapping, to_models, to_nested])
async def test_payload_has_the_type_of_the_annotation(conn: Connection, start: Start, handler: Any) -> None:
    topic(conn)
    send(conn, f'{{"order": {ORDER}}}' if handler is to_nested else ORDER)
    app = Headrace()
    app.consumer("orders", name="c", batch=Batch() if handler is to_models else None)(handler)
    await run_dry(await start(app.consumers[0]))
    [order] = got
    values = order if isinstance(order, dict) else {name: getattr(order, name) for name in ("id", "at", "amount", "rate")}
    # Every digit: by way of a float the amount would end with 68.
    assert values["amount"] == Decimal(AMOUNT) and values["id"] == UUID(ID) and values["rate"] == 0.5
    assert isinstance(values["at"], datetime)


async def test_numbers_are_floats_or_on_request_decimals(conn: Connection, start: Start) -> None:
    topic(conn)
    send(conn, f'{{"amount": {AMOUNT}, "count": 12345678901234567890}}', headers='{"x": 1.5}')
    app = Headrace()
    app.consumer("orders", name="floats")(to_json)
    app.consumer("orders", name="decimals", numbers="decimal")(to_json)
    for consumer in app.consumers:
        await run_dry(await start(consumer))
    floats, decimals = got
    assert floats.payload == {"amount": float(AMOUNT), "count": 12345678901234567890}
    assert decimals.payload == {"amount": Decimal(AMOUNT), "count": 12345678901234567890}
    assert floats.headers == decimals.headers == {"x": 1.5}
    assert floats.id == decimals.id and floats.position == decimals.position == 1


def test_application_may_ask_for_decimals_everywhere() -> None:
    app = Headrace(numbers="decimal")
    app.consumer("orders")(to_json)
    assert app.consumers[0].raw_payload
    with pytest.raises(Invalid, match='numbers is \'exact\'; give "float" or "decimal"'):
        app.consumer("orders", numbers="exact")  # type: ignore[arg-type]


@pytest.mark.parametrize("handler", [to_model, to_struct])
async def test_payload_that_does_not_fit_fails_clearly_and_follows_the_policy(
    conn: Connection, start: Start, handler: Any
) -> None:
    topic(conn)
    send(conn, ORDER.replace("0.5", '"much"'))
    app = Headrace()
    app.consumer("orders", name="c", failure=Failure.retry())(handler)
    runner = await start(app.consumers[0])
    await runner.handle_once()
    [lag] = consumer_lag(conn)
    assert (lag.state, lag.attempts, lag.lag_events) == ("idle", 1, 1)
    error = lag.error or ""
    assert error.startswith("PayloadMismatch: the payload of event ") and "rate" in error and "\n" not in error
    assert f"does not fit {'Model' if handler is to_model else 'Struct'}: " in error and not got


async def test_payload_that_does_not_fit_is_buried_at_once_on_request(conn: Connection, start: Start) -> None:
    topic(conn)
    send(conn, '{"id": 1}')
    send(conn)
    app = Headrace()
    app.consumer("orders", name="c", bury_invalid=True)(to_model)
    await run_dry(await start(app.consumers[0]))
    [letter] = list_dead_letters(conn)
    assert (letter.position, letter.attempts, letter.reason) == (1, 1, "handler buried it")
    assert "Bury: the payload of event" in (letter.error or "") and "ValidationError" in (letter.traceback or "")
    assert len(got) == 1  # The next event was handled.


async def test_invalid_event_of_a_batch_is_found_and_its_neighbours_are_handled(conn: Connection, start: Start) -> None:
    topic(conn)
    for payload in (ORDER, "[]", ORDER):
        send(conn, payload)
    app = Headrace()
    app.consumer("orders", name="c", batch=Batch(max=10), bury_invalid=True)(to_models)
    await run_dry(await start(app.consumers[0]))
    assert [letter.position for letter in list_dead_letters(conn)] == [2]
    assert len(got) == 2


async def test_dead_letter_of_a_typed_handler_can_be_redriven(conn: Connection, start: Start) -> None:
    topic(conn)
    send(conn, '{"id": 1}')
    app = Headrace()
    app.consumer("orders", name="c", bury_invalid=True)(to_model)
    runner = await start(app.consumers[0])
    await run_dry(runner)
    conn.execute("update headrace_internal.dead_letter set payload = %s::jsonb", (ORDER,))
    conn.execute("select headrace.redrive('orders', 'c')")
    assert await runner.redrive_once()
    assert got[0].amount == Decimal(AMOUNT)
