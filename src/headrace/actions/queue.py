"""One namespace's queue as a node sees it: claiming, acking, failing, giving back.

Owns: the statements on pgmq's tables. Claims and leases go over connections of their own that do not wait for the disk: a lease
lost in a crash of the server is only a lease that ended early. What handlers did and its ack commit as durably as anything."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

import msgspec
import psycopg.sql

from headrace.actions.action import Action, Claim
from headrace.actions.handlers import Policy
from headrace.db import AsyncConnection, Pool, Target, create_pool, query

logger = logging.getLogger(__name__)

LEASE_S = 30.0
# The claim must follow the queue's indexes in their order; statistics of a table that fills and empties mislead the planner.
LEASE_SETTINGS = {
    "synchronous_commit": "off",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_sort": "off",
    "plan_cache_mode": "force_generic_plan",
    # A sort that cannot be avoided counts as so dear that the statement would be compiled.
    "jit": "off",
}

NOWHERE = 2**63 - 1
"""The message id after which there is none: all are looked for in the order they fell due."""

_decode = msgspec.json.Decoder(Action).decode


def lease_pool(target: Target, *, size: int) -> Pool:
    """Connections for claims and leases."""
    return create_pool(target, size=size, settings=LEASE_SETTINGS)


class Queue:
    """The queue of one namespace in one database, for one node."""

    def __init__(self, leases: Pool, *, namespace: str | None, node_id: UUID, lease_s: float = LEASE_S) -> None:
        self.namespace = namespace
        self.lease_s = lease_s
        self._leases = leases
        self._node_id = node_id
        self._statements: dict[str, psycopg.sql.Composed] = {}

    async def claim(self, actions: Sequence[str], most: int, *, after: int = NOWHERE) -> list[Claim]:
        """Claims actions that were never handed out before, in the order to handle; of the ordinary ones first those after a
        message id."""
        given = {"actions": list(actions), "max": most, "lease_s": self.lease_s, "after": after}
        async with self._leases.connection() as conn:
            claims = await self._claimed(conn, "claim", given)
        if any(claim.action.priority for claim in claims):
            claims.sort(key=lambda claim: claim.action.priority, reverse=True)
        return claims

    async def claim_ordered(self, action: str, most: int) -> list[Claim]:
        """Claims actions of one name whose keys have none before them in hand."""
        given = {"action": action, "max": most, "lease_s": self.lease_s, "namespace": self.namespace}
        async with self._leases.connection() as conn, conn.transaction():
            await conn.execute(query("actions/lock_order"), given)
            return await self._claimed(conn, "claim_ordered", given)

    async def claim_retried(self, actions: Sequence[str], *, ordered: bool) -> list[Claim]:
        """Claims one action that was handed out before."""
        given = {"actions": list(actions), "lease_s": self.lease_s, "ordered": ordered}
        async with self._leases.connection() as conn:
            return await self._claimed(conn, "claim_retried", given)

    async def _claimed(self, conn: AsyncConnection, statement: str, given: Mapping[str, object]) -> list[Claim]:
        if statement not in self._statements:
            await self._compose(conn)
        rows = await (await conn.execute(self._statements[statement], given, prepare=True, binary=True)).fetchall()
        claims = [claim for row in sorted(rows) if (claim := _read(*row))]
        if len(claims) < len(rows):
            read = {claim.msg_id for claim in claims}
            await self.bury([row[0] for row in rows if row[0] not in read], "unreadable", "the message is not an action")
        return claims

    async def _compose(self, conn: AsyncConnection) -> None:
        """The claims with the queue's table in them; as text of their own they keep their plans."""
        row = await (await conn.execute("select 'q_' || headrace_internal.queue_name(%s)", (self.namespace,))).fetchone()
        assert row is not None
        table = psycopg.sql.Identifier("pgmq", row[0])
        for name in ("claim", "claim_ordered", "claim_retried", "count_back"):
            self._statements[name] = psycopg.sql.SQL(query(f"actions/{name}")).format(queue=table)

    async def ack(self, conn: AsyncConnection, claims: Sequence[Claim], durations_s: Sequence[float]) -> None:
        """Takes handled actions out of the queue, in the handlers' transaction; raises HR206 where one is no longer held."""
        await ack(conn, claims, durations_s, node_id=self._node_id, namespace=self.namespace)

    async def fail(self, claim: Claim, policy: Policy, error: BaseException, duration_s: float) -> str | None:
        """Records a failed attempt and says what follows: `retry`, `dead`, or None where the lease had ended."""
        async with self._leases.connection() as conn:
            return await fail(conn, claim, policy, error, duration_s, node_id=self._node_id, namespace=self.namespace)

    async def bury(self, msg_ids: Sequence[int], reason: str, error: str) -> None:
        """Moves messages to the dead letters."""
        async with self._leases.connection() as conn:
            await self._bury(conn, msg_ids, reason, error)

    async def bury_lost(self, claim: Claim, attempts: int) -> None:
        """Buries an action that was handed out as often as it may be, and that no node came back with."""
        error = f"handed out {attempts} times, and no node came back: it died, or it hung for longer than the lease"
        async with self._leases.connection() as conn, conn.transaction():
            await conn.execute(self._statements["count_back"], {"msg_ids": [claim.msg_id], "attempts": attempts})
            await self._bury(conn, [claim.msg_id], "lost", error)

    async def _bury(self, conn: AsyncConnection, msg_ids: Sequence[int], reason: str, error: str) -> None:
        given = (list(msg_ids), reason, error, self._node_id, self.namespace)
        await conn.execute("select headrace.bury_actions(%s, %s, %s, null, %s, %s)", given)

    async def clock_s(self) -> float:
        """The database's time, in seconds since 1970."""
        async with self._leases.connection() as conn:
            row = await (await conn.execute("select extract(epoch from headrace.clock())::float8")).fetchone()
        assert row is not None
        return float(row[0])

    async def bury_unhandled(self, grace_s: float) -> int:
        """Buries what no node handles; returns how many."""
        async with self._leases.connection() as conn:
            row = await (
                await conn.execute("select headrace_internal.bury_unhandled(%s, %s)", (grace_s, self.namespace))
            ).fetchone()
        return int(row[0]) if row else 0

    async def extend(self, claims: Sequence[Claim]) -> int:
        """Makes leases longer; returns how many are still held."""
        async with self._leases.connection() as conn:
            given = (*_held(claims), self.lease_s, self.namespace)
            extended = await conn.execute("select headrace.extend_actions(%s::bigint[], %s::integer[], %s, %s)", given)
            row = await extended.fetchone()
        return int(row[0]) if row else 0

    async def release(self, claims: Sequence[Claim], *, begun: bool) -> None:
        """Gives actions back, due at once. Those never begun do not lose an attempt."""
        async with self._leases.connection() as conn:
            given = (*_held(claims), not begun, self.namespace)
            await conn.execute("select headrace.release_actions(%s::bigint[], %s::integer[], %s, %s)", given)

    async def rest(self, *, asleep: bool) -> None:
        """Says whether senders have to call."""
        async with self._leases.connection() as conn:
            await conn.execute("select headrace_internal.rest_queue(%s, %s)", (asleep, self.namespace))


async def ack(
    conn: AsyncConnection, claims: Sequence[Claim], durations_s: Sequence[float], *, node_id: UUID | None, namespace: str | None
) -> None:
    """Takes handled actions out of the queue, in the transaction that is open on the connection."""
    given = (*_held(claims), _array(f"{duration_s:.6f}" for duration_s in durations_s), node_id, namespace)
    await conn.execute("select headrace.ack_actions(%s::bigint[], %s::integer[], %s::real[], %s, %s)", given, prepare=True)


async def fail(
    conn: AsyncConnection,
    claim: Claim,
    policy: Policy,
    error: BaseException,
    duration_s: float,
    *,
    node_id: UUID | None,
    namespace: str | None,
) -> str | None:
    """Records a failed attempt and says what follows: `retry`, `dead`, or None where the lease had ended."""
    given = {
        "msg_id": claim.msg_id,
        "attempt": claim.attempt,
        "attempts_max": policy.attempts,
        "backoff_s": policy.backoff_s,
        "backoff_max_s": policy.backoff_max_s,
        "error": told(error),
        "traceback": _storable("".join(traceback.format_exception(error))),
        "duration_s": duration_s,
        "node_id": node_id,
        "namespace": namespace,
    }
    row = await (await conn.execute(query("actions/fail_action"), given)).fetchone()
    return str(row[0]) if row and row[0] else None


def _held(claims: Sequence[Claim]) -> tuple[str, str]:
    """The message ids and attempts of claims, as arrays."""
    return _array(str(claim.msg_id) for claim in claims), _array(str(claim.attempt) for claim in claims)


def _array(numbers: Iterable[str]) -> str:
    """Numbers as the text of an array: five times quicker than psycopg's lists, which look at every element."""
    return "{" + ",".join(numbers) + "}"


def _read(msg_id: int, attempt: int, message: str) -> Claim | None:
    """The action in a message; None for what others put into the queue and is none."""
    try:
        action = _decode(message)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        logger.warning("message %s is not an action: %s", msg_id, error)
        return None
    msgspec.structs.force_setattr(action, "attempt", attempt)
    return Claim(msg_id, attempt, action)


def told(error: BaseException) -> str:
    """Kind and message of an error, as dead letters are grouped by."""
    return _storable(f"{type(error).__name__}: {error}".strip())


def _storable(text: str) -> str:
    """Without what PostgreSQL cannot store in a text."""
    return text.replace("\0", "�").encode("utf-8", "replace").decode()
