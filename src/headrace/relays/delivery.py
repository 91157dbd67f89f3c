"""Delivery: the handler of a relay's consumer, which maps events, hands them to the target and waits for its confirmation; and the backtest,
which maps past events and sends nothing.

Owns: one relay's connections to its target on one node. Promises: a delivery ends in time, so that no transaction of the log stays open
for long; what the target has confirmed is not sent again because a neighbour failed; an error never shows a secret."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, NoReturn, cast

import psycopg
from psycopg.types.json import set_json_loads

from headrace.consume import printed_condition, seek_position
from headrace.core import DeliveryError, HeadraceError, LoggedEvent, RawJSON, TargetGone, TargetRefused, error_text
from headrace.db import Connection, map_database_errors, query
from headrace.log.topics import logged_event_row
from headrace.relays.mapping import Mapper
from headrace.relays.relay import Relay, check_relay
from headrace.relays.targets import open_target
from headrace.relays.targets.options import Secrets, resolve_secrets
from headrace.relays.targets.target import Message, Target

DELIVERY_MAX_S: Final = 45.0
"""Longest delivery. The session of a loop ends after a minute of waiting in a transaction."""
CONFIRMED_MAX: Final = 100_000
"""How many confirmed positions are remembered for batches that failed."""
RETRY_AFTER_MAX_S: Final = 3600.0
WAIT_MAX_S: Final = 2.0
"""A shorter pause that the target asked for is waited for in place."""
SAMPLES: Final = 5


logger = logging.getLogger(__name__)


is_redrive: ContextVar[bool] = ContextVar("headrace_is_redrive", default=False)
"""True while a dead letter is delivered."""


OnGone = Callable[[str], Awaitable[None]]


class Delivery:
    """Delivers the events of one version of a relay. Its method `deliver` is a handler of batches."""

    def __init__(self, relay: Relay, *, namespace: str, uid: str, on_gone: OnGone) -> None:
        self._relay = relay
        self._namespace = namespace
        self._mapper = Mapper(relay.name, relay.format, relay.mapping, uid=uid)
        self._on_gone = on_gone
        self._idle: list[Target] = []
        """Open connections that no delivery uses. Each delivery has one of its own: partitions are delivered at the same time."""
        self._secrets = Secrets()
        self._not_before = 0.0
        """Until then, by the monotonic clock, the target wants nothing."""
        self._confirmed: dict[int, set[int]] = {}
        """By partition: positions that the target has confirmed in a delivery that failed as a whole."""

    async def deliver(self, events: Sequence[LoggedEvent[RawJSON]], _conn: psycopg.AsyncConnection) -> None:
        """Returns once the target has confirmed all events."""
        partition = events[0].partition
        confirmed = self._confirmed.get(partition, set())
        if confirmed and events[0].position < min(confirmed) - self._relay.batch:
            # Somebody has moved the cursor back, to have the events delivered again.
            confirmed = set()
            self._confirmed.pop(partition)
        is_redriven = is_redrive.get()
        messages = [
            self._mapper.to_message(event, is_redriven=is_redriven) for event in events if event.position not in confirmed
        ]
        try:
            if messages:
                await self._send(messages)
        except Exception as error:  # noqa: BLE001 - a library of a target may raise anything
            await self._fail(partition, error)
        self._forget(partition, events[-1].position)

    async def _send(self, messages: Sequence[Message]) -> None:
        wait_s = self._not_before - time.monotonic()
        if wait_s > WAIT_MAX_S:
            raise DeliveryError(f"the target wants nothing for {wait_s:.0f} s", retry_after_s=wait_s)
        async with asyncio.timeout(DELIVERY_MAX_S):
            await asyncio.sleep(max(wait_s, 0))
            target = self._idle.pop() if self._idle else await self._open()
            try:
                await target.deliver(messages)
            except TargetRefused:
                self._idle.append(target)
                raise
            except BaseException:
                # Connected anew next time: whatever state the connection is in, it is not trusted.
                await _close(self._relay.name, target)
                raise
            self._idle.append(target)

    async def _fail(self, partition: int, error: Exception) -> NoReturn:
        """Raises what the failure policy gets to see."""
        if isinstance(error, DeliveryError) and error.delivered:
            confirmed = self._confirmed.setdefault(partition, set())
            if len(confirmed) < CONFIRMED_MAX:
                confirmed |= error.delivered
        if isinstance(error, DeliveryError) and error.retry_after_s is not None:
            # A batch that failed is tried again event by event at once: that is too early, too.
            self._not_before = time.monotonic() + min(error.retry_after_s, RETRY_AFTER_MAX_S)
        if isinstance(error, TargetGone):
            await self._on_gone(self._redact(str(error)))
        raise self._error(error) from None

    def _error(self, error: Exception) -> DeliveryError:
        if isinstance(error, TimeoutError):
            return DeliveryError(f"the target has not confirmed within {DELIVERY_MAX_S:.0f} s; it is tried again")
        # The text of a foreign library may quote what it was given.
        text = self._redact(error_text(error) or type(error).__name__)
        if not isinstance(error, DeliveryError):
            return DeliveryError(text if isinstance(error, HeadraceError) else f"{type(error).__name__}: {text}")
        after_s = None if error.retry_after_s is None else min(max(error.retry_after_s, 0.0), RETRY_AFTER_MAX_S)
        kind = next(kind for kind in (TargetRefused, TargetGone, DeliveryError) if isinstance(error, kind))
        return kind(text, retry_after_s=after_s)

    def _redact(self, text: str) -> str:
        for value in self._secrets.values():
            if len(value) >= 4:
                text = text.replace(value, "***")
        return text

    def _forget(self, partition: int, position: int) -> None:
        """Forgets confirmations that the cursor is about to pass."""
        if confirmed := self._confirmed.get(partition):
            self._confirmed[partition] = confirmed = {other for other in confirmed if other > position}
            if not confirmed:
                del self._confirmed[partition]

    async def _open(self) -> Target:
        # Read again for each connection: a secret may have been rotated.
        self._secrets = resolve_secrets(self._relay.options, self._namespace)
        target = open_target(self._relay.target, self._relay.name, self._relay.options, self._secrets)
        try:
            await target.open()
        except BaseException:
            await _close(self._relay.name, target)
            raise
        return target

    async def close(self) -> None:
        """Disconnects from the target."""
        while self._idle:
            await _close(self._relay.name, self._idle.pop())


async def _close(relay: str, target: Target) -> None:
    try:
        async with asyncio.timeout(5):
            await target.close()
    except Exception as error:  # noqa: BLE001 - the connection is given up anyway
        logger.debug("relay %s: the target did not close: %s", relay, type(error).__name__)


@dataclass(frozen=True)
class RelayBacktest:
    """What a relay would have sent for the events of a range. Nothing was sent."""

    from_position: int
    to_position: int
    events: int
    """Events in the range."""
    messages: int
    """Messages that would have been sent for them."""
    body_bytes: int
    by_event_type: Mapping[str, int]
    samples: tuple[Message, ...]
    """The first messages."""


def backtest_relay(
    conn: Connection,
    relay: Relay,
    *,
    start: str = "earliest",
    end: str = "latest",
    samples: int = SAMPLES,
    namespace: str | None = None,
) -> RelayBacktest:
    """Maps the events of a relay's topic between two places ('earliest', 'latest', a position, a time) and counts the messages."""
    check_relay(relay)
    after = seek_position(conn, relay.topic, start, namespace=namespace)
    upto = seek_position(conn, relay.topic, end, namespace=namespace)
    parameters = {"topic": relay.topic, "namespace": namespace, "after": after, "upto": upto}
    condition = printed_condition(relay.condition)
    statement = query("relays/backtest").replace("/* condition */ true", condition)
    mapper = Mapper(relay.name, relay.format, relay.mapping)
    types: Counter[str] = Counter()
    first: list[Message] = []
    body_bytes = 0
    with map_database_errors(), conn.transaction():
        # The condition's operators are those of PostgreSQL, whatever this session's search_path has.
        conn.execute("set local search_path = pg_catalog, pg_temp")
        row = conn.execute(query("relays/count_events"), parameters).fetchone()
        with conn.cursor("headrace_backtest", row_factory=logged_event_row) as cursor:
            set_json_loads(RawJSON, cursor)
            cursor.execute(statement, parameters)
            for event in cursor:
                message = mapper.to_message(cast(LoggedEvent[Any], event))
                types[event.type] += 1
                body_bytes += len(message.body)
                if len(first) < samples:
                    first.append(message)
    return RelayBacktest(after + 1, upto, row[0] if row else 0, types.total(), body_bytes, types, tuple(first))
