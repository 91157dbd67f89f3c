"""Direct delivery: the sender handles its action itself, and the queue delivers it only if that fails.

Promises: the action is in the queue with the sender's transaction, invisible for `hold_s`; direct delivery handles and acks it
in one transaction; whatever goes wrong, the queue delivers it, once."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import LiteralString
from uuid import UUID

import msgspec
from psycopg.pq import TransactionStatus
from uuid_utils.compat import uuid7

from headrace.actions.action import Action, Claim
from headrace.actions.handlers import ActionHandlers, call_action_handlers
from headrace.actions.queue import ack, fail
from headrace.consume import describe_error, run_after_commit
from headrace.core import JSON, Conflict, Event, Invalid, LeaseLost, decode, validate_event
from headrace.db import AsyncConnection as NodeConnection, map_error
from headrace.drivers import ASYNCPG, AsyncConnection, Fetch, PsycopgConnection, Steps, run_steps_async
from headrace.log.outbox import ascii_json
from headrace.observe.tracing import trace_sending

logger = logging.getLogger(__name__)

HOLD_S = 10

_SEND_PENDING: LiteralString = """select s, headrace.is_paused(cast(%s as text), cast(%s as text)) from headrace.send_actions(
    cast(%s as text), array[cast(cast(%s as text) as jsonb)], array[cast(cast(%s as text) as integer)]) s"""


@dataclass(frozen=True)
class PendingAction:
    """An action in the queue that its sender is about to deliver itself."""

    claim: Claim
    namespace: str | None
    paused: bool = False
    """The action was paused when it was sent: only the queue may deliver it, after the pause."""

    @property
    def id(self) -> UUID:
        return self.claim.action.id


async def send_pending(
    conn: AsyncConnection,
    action: str,
    payload: JSON = None,
    *,
    key: str | None = None,
    hold_s: int = HOLD_S,
    namespace: str | None = None,
) -> PendingAction:
    """Sends an action in the caller's transaction; deliver it within `hold_s` seconds after the commit."""
    if hold_s < 1:
        raise Invalid(f"hold_s {hold_s}: the queue must leave the sender at least a second")
    return await run_steps_async(conn, _send_pending(action, payload, key, hold_s, namespace))


def _send_pending(action: str, payload: JSON, key: str | None, hold_s: int, namespace: str | None) -> Steps[PendingAction]:
    event = validate_event(Event(topic="", type=action, payload=payload, key=key))
    with trace_sending(action) as headers:
        envelope = Action(
            id=uuid7(),
            action=action,
            payload=decode(event.payload),
            key=key,
            namespace=namespace or "default",
            emitted_at=datetime.now(UTC),
            cause={},
            headers=None if headers is None else msgspec.json.decode(headers),
            attempt=0,
        )
        # The payload's own text: through Python values a number could lose digits.
        text = msgspec.json.encode(msgspec.structs.replace(envelope, payload=msgspec.Raw(event.payload.encode()))).decode()
        [(msg_id, is_paused)] = yield Fetch(_SEND_PENDING, (action, namespace, namespace, ascii_json(text), str(hold_s)))
    return PendingAction(Claim(msg_id, 0, envelope, text), namespace, is_paused)


async def deliver_pending(conn: NodeConnection, pending: PendingAction, handlers: Mapping[str, ActionHandlers]) -> bool:
    """Handles a pending action in its own transaction, after the sender's; False: the queue will deliver it."""
    if conn.info.transaction_status != TransactionStatus.IDLE:
        raise Conflict(
            "direct delivery needs a connection without an open transaction; commit the one that sent the action first"
        )
    group = handlers.get(pending.claim.action.action)
    if group is None or group.source == ASYNCPG or pending.paused:
        return False
    started = time.perf_counter()
    connection = PsycopgConnection(conn)
    await connection.begin()
    try:
        durations_s = await call_action_handlers(handlers, [pending.claim], connection)
        await ack(connection, [pending.claim], durations_s, node_id=None, namespace=pending.namespace)
        await connection.commit()
    except Exception as error:  # noqa: BLE001 - a handler may raise anything
        failure = describe_error(error)
        await connection.rollback()
    except BaseException:
        await connection.rollback()
        raise
    else:
        await run_after_commit(connection)
        return True
    logger.warning("action %s %s was not delivered directly: %s", group.action, pending.id, failure.line)
    if not (conn.broken or conn.closed or isinstance(map_error(failure.error), LeaseLost)):
        duration_s = time.perf_counter() - started
        await fail(conn, pending.claim, group.policy, failure, duration_s, node_id=None, namespace=pending.namespace)
    return False
