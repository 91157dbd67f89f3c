"""One namespace's queue, as a node sees it: claim, extend leases, ack, fail, release.

Owns: the statements on pgmq's tables. Claims and leases do not wait for the disk: a lease lost in a crash of the server is only
a lease that ended early. Effects of handlers, their acks and their failures commit with full durability."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import LiteralString
from uuid import UUID

import msgspec

from headrace.actions.action import Action, Claim
from headrace.actions.handlers import Policy
from headrace.consume import HandlerError, describe_error
from headrace.db import AsyncConnection, Loop, Parameter, Pool, fetch_exchanged, fetch_value_async
from headrace.drivers import HandlerConnection

logger = logging.getLogger(__name__)

LEASE_S = 30.0

MSG_ID_MAX = 2**63 - 1
"""A claim with this as `after` takes all actions by due time, because no message id is higher."""

# It holds for the transaction that the statement is part of; in the from clause it is set before the commit, and costs no round trip.
_NO_WAIT: LiteralString = " from pg_catalog.set_config('synchronous_commit', 'off', true)"
_CLAIM: LiteralString = f"select msg_id, read_ct, message{_NO_WAIT}, headrace.claim_actions(%s::text[], %s, %s, %s, %s)"
_CLAIM_ORDERED: LiteralString = f"select msg_id, read_ct, message{_NO_WAIT}, headrace.claim_ordered_actions(%s, %s, %s, %s)"
_CLAIM_RETRIED: LiteralString = (
    f"select msg_id, read_ct, message{_NO_WAIT}, headrace.claim_retried_action(%s::text[], %s, %s, %s)"
)
_ACK = "select headrace.ack_actions(%s::bigint[], %s::integer[], %s::real[], %s, %s)"
_FAIL = "select headrace.fail_action(%s, %s, %s, %s, %s, %s, %s, %s::real, %s, %s, %s, %s)"

_decode = msgspec.json.Decoder(Action).decode


class Queue:
    """The queue of one namespace in one database, for one node."""

    def __init__(self, leases: Pool, *, namespace: str | None, node_id: UUID, lease_s: float = LEASE_S) -> None:
        self.namespace = namespace
        self.lease_s = lease_s
        self._leases = leases
        self._node_id = node_id

    async def claim(self, actions: Sequence[str], limit: int, *, after: int = MSG_ID_MAX) -> list[Claim]:
        """Claims actions that were never claimed before, in the order to handle them. Among those of ordinary priority, the ones
        after the message id `after` come first."""
        claims = await self._claim(_CLAIM, (_text_array(actions), limit, self.lease_s, after, self.namespace))
        if any(claim.action.priority for claim in claims):
            claims.sort(key=lambda claim: claim.action.priority, reverse=True)
        return claims

    async def claim_ordered(self, action: str, limit: int) -> list[Claim]:
        """Claims actions of one name whose keys have no earlier action in the queue that is not part of this claim."""
        return await self._claim(_CLAIM_ORDERED, (action, limit, self.lease_s, self.namespace))

    async def claim_retried(self, actions: Sequence[str], *, ordered: bool) -> list[Claim]:
        """Claims one action that was claimed before."""
        return await self._claim(_CLAIM_RETRIED, (_text_array(actions), ordered, self.lease_s, self.namespace))

    async def _claim(self, statement: LiteralString, parameters: Sequence[Parameter]) -> list[Claim]:
        async with self._leases.connection() as conn:
            rows = await fetch_exchanged(conn, statement, parameters)
            claims = [claim for row in sorted(rows) if (claim := _read(*row))]
            if len(claims) < len(rows):
                readable = {claim.msg_id for claim in claims}
                unreadable = [row[0] for row in rows if row[0] not in readable]
                async with conn.transaction():
                    await self._bury(conn, unreadable, "unreadable", "the message is not an action")
        return claims

    async def ack(self, conn: AsyncConnection | HandlerConnection, claims: Sequence[Claim], durations_s: Sequence[float]) -> None:
        """Removes handled actions from the queue, in the handlers' transaction; raises HR206 if a lease was lost."""
        await ack(conn, claims, durations_s, node_id=self._node_id, namespace=self.namespace)

    async def ack_and_commit(self, conn: HandlerConnection, claims: Sequence[Claim], durations_s: Sequence[float]) -> None:
        """Removes handled actions from the queue and commits the handlers' transaction, in one round trip where the driver can;
        raises HR206 if a lease was lost, and then nothing is committed."""
        await conn.commit(_ACK, _ack_parameters(claims, durations_s, self._node_id, self.namespace))

    async def fail(self, claim: Claim, policy: Policy, error: HandlerError | BaseException, duration_s: float) -> str | None:
        """Records a failed attempt; returns what follows: `retry`, `dead`, `discarded`, or None if the lease was lost."""
        async with self._leases.connection() as conn:
            return await fail(conn, claim, policy, error, duration_s, node_id=self._node_id, namespace=self.namespace)

    async def bury_lost(self, claim: Claim, attempts: int) -> None:
        """Buries an action that has used up its attempts without any result from a node."""
        error = f"delivered {attempts} times without a result: every node died, or hung for longer than the lease"
        async with self._leases.connection() as conn, conn.transaction():
            parameters = (claim.msg_id, attempts, error, self._node_id, self.namespace)
            await conn.execute("select headrace.bury_lost_action(%s, %s, %s, %s, %s)", parameters)

    async def _bury(self, conn: AsyncConnection, msg_ids: Sequence[int], reason: str, error: str) -> None:
        statement = "select headrace.bury_actions(%s, %s, %s, p_node_id => %s, p_namespace => %s)"
        await conn.execute(statement, (list(msg_ids), reason, error, self._node_id, self.namespace))

    async def bury_unhandled(self, grace_s: float) -> int:
        """Buries actions that no node handles; returns how many."""
        statement = "select headrace.bury_unhandled(%s, %s)"
        return int(await fetch_value_async(self._leases, statement, (grace_s, self.namespace)))

    async def extend(self, claims: Sequence[Claim]) -> int:
        """Extends leases; returns how many are still held."""
        statement: LiteralString = f"select headrace.extend_actions(%s::bigint[], %s::integer[], %s, %s){_NO_WAIT}"
        return int(await fetch_value_async(self._leases, statement, (*_fences(claims), self.lease_s, self.namespace)))

    async def release(self, claims: Sequence[Claim], *, count_attempt: bool) -> None:
        """Returns actions to the queue, due at once. Without `count_attempt` the attempt does not count: no handler was called."""
        statement: LiteralString = f"select headrace.release_actions(%s::bigint[], %s::integer[], %s, %s){_NO_WAIT}"
        await fetch_value_async(self._leases, statement, (*_fences(claims), not count_attempt, self.namespace))

    async def set_asleep(self, asleep: bool) -> None:
        """Tells senders whether the queue's workers sleep, so that a new action needs a notification."""
        await fetch_value_async(self._leases, f"select headrace.set_queue_asleep(%s, %s){_NO_WAIT}", (asleep, self.namespace))

    async def is_empty(self) -> bool:
        """True if no action waits, is delayed or is being handled by any node."""
        return bool(await fetch_value_async(self._leases, "select headrace.queue_is_empty(%s)", (self.namespace,)))

    async def clock_s(self) -> float:
        """The database's time, in seconds since 1970."""
        return float(await fetch_value_async(self._leases, "select extract(epoch from headrace.clock())::float8"))


class LeaseExtender:
    """Every third of a lease, extends the claims that have been held for at least that long.

    So a lease does not end while its handler runs and the node lives. If it is lost all the same, that is logged, and the fence
    rejects the ack."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._held: dict[int, tuple[float, Sequence[Claim]]] = {}
        self._number = 0

    @contextmanager
    def holding(self, claims: Sequence[Claim]) -> Iterator[None]:
        """Keeps the claims' leases alive while the block runs."""
        self._number += 1
        number = self._number
        self._held[number] = (time.monotonic(), claims)
        try:
            yield
        finally:
            del self._held[number]

    async def run(self) -> None:
        """Extends leases until cancelled."""
        third_s = self._queue.lease_s / 3

        async def extend() -> float:
            await self.extend(older_s=third_s)
            return third_s

        await Loop("leases", step=extend).run()

    async def extend(self, *, older_s: float = 0) -> int:
        """Extends the claims held for at least `older_s`; returns how many leases."""
        now = time.monotonic()
        due = [claim for since, claims in self._held.values() if now - since >= older_s for claim in claims]
        if not due:
            return 0
        extended = await self._queue.extend(due)
        if extended < len(due):
            logger.warning(
                "%s of %s leases were not extended: being acked, or lost to another node", len(due) - extended, len(due)
            )
        return extended

    async def release(self) -> None:
        """Returns the claims that are still held to the queue. Their handlers were called, so the attempt counts."""
        claims = [claim for _, claims in self._held.values() for claim in claims]
        if claims:
            await self._queue.release(claims, count_attempt=True)


async def ack(
    conn: AsyncConnection | HandlerConnection,
    claims: Sequence[Claim],
    durations_s: Sequence[float],
    *,
    node_id: UUID | None,
    namespace: str | None,
) -> None:
    """Removes handled actions from the queue, in the transaction that is open on the connection."""
    await conn.execute(_ACK, _ack_parameters(claims, durations_s, node_id, namespace), prepare=True)


def _ack_parameters(
    claims: Sequence[Claim], durations_s: Sequence[float], node_id: UUID | None, namespace: str | None
) -> tuple[str | None, ...]:
    durations = _array(f"{duration_s:.6f}" for duration_s in durations_s)
    return *_fences(claims), durations, None if node_id is None else str(node_id), namespace


async def fail(
    conn: AsyncConnection,
    claim: Claim,
    policy: Policy,
    error: HandlerError | BaseException,
    duration_s: float,
    *,
    node_id: UUID | None,
    namespace: str | None,
) -> str | None:
    """Records a failed attempt; returns what follows: `retry`, `dead`, `discarded`, or None if the lease was lost."""
    limits = (policy.attempts, policy.backoff_s, policy.backoff_max_s)
    if isinstance(error, BaseException):
        error = describe_error(error)
    texts = (error.summary, error.traceback)
    parameters = (claim.msg_id, claim.attempt, *limits, *texts, duration_s, node_id, namespace, error.verdict, error.after_s)
    row = await (await conn.execute(_FAIL, parameters)).fetchone()
    return str(row[0]) if row and row[0] else None


def _fences(claims: Sequence[Claim]) -> tuple[str, str]:
    """The message ids and attempts of claims, as arrays."""
    return _array(str(claim.msg_id) for claim in claims), _array(str(claim.attempt) for claim in claims)


def _array(numbers: Iterable[str]) -> str:
    """The text of an array of numbers: five times faster than psycopg's lists, which inspect every element."""
    return "{" + ",".join(numbers) + "}"


def _text_array(texts: Iterable[str]) -> str:
    """The text of an array of texts."""
    return _array('"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"' for text in texts)


def _read(msg_id: int, attempt: int, message: str) -> Claim | None:
    """The action in a message; None for a message from elsewhere that is not an action."""
    try:
        action = _decode(message)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        logger.warning("message %s is not an action: %s", msg_id, error)
        return None
    msgspec.structs.force_setattr(action, "attempt", attempt)
    return Claim(msg_id, attempt, action, message)
