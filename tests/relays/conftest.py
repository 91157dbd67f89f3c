"""A receiver, and relays to it."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from headrace.db import Connection
from headrace.relays import Relay, create_relay
from tests.relays.receiver import Receiver, receiving

SECRET = "whsec_" + base64.b64encode(b"0123456789abcdef0123456789abcdef").decode()
OLD_SECRET = "whsec_" + base64.b64encode(b"fedcba9876543210fedcba9876543210").decode()

MakeRelay = Callable[..., Relay]


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as running:
        yield running


@pytest.fixture
def make_relay(conn: Connection, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> MakeRelay:
    """Creates a relay to a path of the receiver."""
    monkeypatch.setenv("HEADRACE_RELAY_NETWORKS", "127.0.0.1/32 ::1/128")
    monkeypatch.setenv("HEADRACE_SECRET_DEFAULT__RELAY_SECRET", SECRET)
    monkeypatch.setenv("HEADRACE_SECRET_DEFAULT__RELAY_OLD_SECRET", OLD_SECRET)

    def make(path: str = "/ok", *, name: str = "hook", options: dict[str, Any] | None = None, **fields: Any) -> Relay:
        own = {"url": receiver.url(path), "secret": "env:RELAY_SECRET", "timeout_s": 5}
        relay = Relay(
            name=name,
            topic="orders",
            target="webhook",
            options=own | (options or {}),
            **{"start": "earliest", "backoff_s": 0.05} | fields,
        )
        create_relay(conn, relay)
        return relay

    return make
