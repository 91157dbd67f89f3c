"""Direct delivery: the sender hands its action over itself, and the queue delivers it only when that did not work.

Owns: the moment between sending and the queue. Promises: the action is in the queue with the sender's transaction, out of sight
for `hold_s`; handing over handles and acks it in one transaction; whatever goes wrong, the queue delivers it, once."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

import msgspec
from psycopg.pq import TransactionStatus
from uuid_utils.compat import uuid7

from headrace.actions.action import Action, Claim
from headrace.actions.handlers import Handling, call_all
from headrace.actions.queue import ack, fail, told
from headrace.core import JSON, Conflict, Event, Invalid, LeaseLost, decode, seal
from headrace.db import AsyncConnection, map_database_errors, map_error, query

logger = logging.getLogger(__name__)

HOLD_S = 10


@dataclass(frozen=True)
class Pending:
    """An action that is in the queue and that its sender will try to hand over."""

    claim: Claim
    namespace: str | None

    @property
    def id(self) -> UUID:
        return self.claim.action.id


async def send_pending(
    conn: AsyncConnection,
    action: str,
    payload: JSON = None,
    *,
    key: str | None = None,
    event_type: str | None = None,
    producer: str | None = None,
    hold_s: int = HOLD_S,
    namespace: str | None = None,
) -> Pending:
    """Sends an action with the caller's transaction, to be handed over right after its commit, within `hold_s` seconds."""
    if hold_s < 1:
        raise Invalid(f"hold_s {hold_s}: the queue must leave the sender at least a second")
    sealed = seal(Event(topic="", type=action, payload=payload, key=key))
    made = Action(
        id=uuid7(),
        action=action,
        payload=decode(sealed.payload),
        key=key,
        namespace=namespace or "default",
        event_type=event_type,
        emitted_at=datetime.now(UTC),
        producer=producer,
        cause={},
        attempt=0,
    )
    given = {"namespace": namespace, "action": msgspec.json.encode(made).decode(), "hold_s": hold_s}
    with map_database_errors():
        row = await (await conn.execute(query("actions/send_pending"), given)).fetchone()
    assert row is not None
    return Pending(Claim(row[0], 0, made), namespace)


async def hand_over(conn: AsyncConnection, pending: Pending, handlings: Mapping[str, Handling]) -> bool:
    """Handles a pending action in a transaction of its own, after the sender's; False: the queue will deliver it."""
    if conn.info.transaction_status != TransactionStatus.IDLE:
        raise Conflict("hand_over needs a connection without an open transaction; commit the one that sent the action first")
    handling = handlings.get(pending.claim.action.action)
    if handling is None:
        return False
    began = time.perf_counter()
    try:
        async with conn.transaction():
            durations_s = await call_all(handlings, [pending.claim], conn)
            await ack(conn, [pending.claim], durations_s, node_id=None, namespace=pending.namespace)
        return True
    except Exception as error:  # noqa: BLE001 - a handler may raise anything
        failed = error
    logger.warning("action %s %s could not be handed over: %s", handling.action, pending.id, told(failed))
    if not (conn.broken or conn.closed or isinstance(map_error(failed), LeaseLost)):
        taken_s = time.perf_counter() - began
        await fail(conn, pending.claim, handling.policy, failed, taken_s, node_id=None, namespace=pending.namespace)
    return False
