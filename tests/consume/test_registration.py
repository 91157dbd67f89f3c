"""A new consumer: what its node says about the events behind it."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from headrace.consume import Consumer
from headrace.core import LoggedEvent
from headrace.db import AsyncConnection, Connection
from tests.builders import fill, topic
from tests.consume.conftest import Start

pytestmark = pytest.mark.lane("pg18")


async def handle(event: LoggedEvent, tx: AsyncConnection) -> None: ...


async def test_renamed_consumer_is_warned_of_before_it_handles_the_topic_again(
    conn: Connection, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    topic(conn)
    consumer = Consumer(topic="orders", name="bill", handler=handle)
    await start(consumer)
    fill(conn, 5)
    await start(consumer)
    await start(replace(consumer, name="from-now-on", start="latest"))
    assert caplog.messages == [], "neither a known one nor one without events behind it"
    await start(replace(consumer, name="invoice"))
    [message] = caplog.messages
    assert "consumer orders/invoice is new and begins with the 5 events that are in the log already" in message
    assert "no node runs bill, from-now-on of this topic: was it renamed?" in message
