"""Compiles the conditions of consumers. Only the owner and nodes may store the result.

Promises: the database gets SQL that was printed from our own tree; the text of a user is never executed. A role that only consumes
stores its condition as text, and a node compiles it. An invalid condition is marked with its error, and stops only its consumer."""

from __future__ import annotations

import logging
from typing import LiteralString

from headrace.db import Loop, Pool, StopSignal, Subscription, fetch_value_async
from headrace.lang.condition import ConditionError, parse, to_postgres

logger = logging.getLogger(__name__)

RETRY_S, LOCKED_S = 30.0, 1.0
"""Longest wait without a notification: one may be lost with its connection. And while somebody else holds the row of a consumer."""
PASS_MAX = 200
"""Conditions that are compiled before it looks again at what is pending."""

MAY_COMPILE: LiteralString = "select pg_catalog.has_schema_privilege('headrace_internal', 'usage')"
COMPILE: LiteralString = "select headrace_internal.compile_condition(%s, %s, %s, %s)"
# Namespaces take turns: the first one of each, then the second one of those that have more.
_PENDING: LiteralString = """select w.consumer_id, w.condition
    from (
        select c.consumer_id, c.condition, row_number() over (partition by t.namespace order by c.consumer_id) as turn
        from headrace_internal.consumer c
        join headrace_internal.topic t on t.topic_id = c.topic_id
        where c.condition is not null and c.filter is null and c.condition_error is null
    ) w
    order by w.turn, w.consumer_id limit %s"""


def compile_parameters(consumer_id: int, condition: str) -> tuple[int, str, str | None, str | None]:
    """The parameters of COMPILE: the condition as SQL, or why it cannot be compiled."""
    try:
        return consumer_id, condition, to_postgres(parse(condition)), None
    except ConditionError as error:
        return consumer_id, condition, None, str(error)
    except Exception as error:
        # A bug of ours must not stop the others.
        logger.exception("the condition of consumer %s could not be compiled", consumer_id)
        return consumer_id, condition, None, f"could not be compiled: {type(error).__name__}: {error}"


async def compile_if_allowed(pool: Pool, consumer_id: int, condition: str) -> None:
    """Compiles the condition of a consumer at once, if our role may; otherwise a node does it soon."""
    if await fetch_value_async(pool, MAY_COMPILE):
        await fetch_value_async(pool, COMPILE, compile_parameters(consumer_id, condition))


def printed_condition(condition: str) -> LiteralString:
    """A condition over the columns of an event, as SQL for a statement with parameters. Raises ConditionError."""
    return to_postgres(parse(condition)).replace("%", "%%")


class ConditionCompiler:
    """Compiles the conditions of consumers that others have written, until `stop` is set."""

    def __init__(self, pool: Pool, written: Subscription, stop: StopSignal) -> None:
        self._pool = pool
        self.loop = Loop("conditions of consumers", stop, step=self._step, wake_up=written, pool=pool)

    async def _step(self) -> float:
        pending, compiled = await self.compile_once()
        return 0 if compiled else LOCKED_S if pending else RETRY_S

    async def compile_once(self) -> tuple[int, int]:
        """Compiles pending conditions, at most PASS_MAX; returns how many were pending, and how many were compiled."""
        compiled = 0
        async with self._pool.connection() as conn:
            pending = await (await conn.execute(_PENDING, (PASS_MAX,))).fetchall()
            for consumer_id, condition in pending:
                row = await (await conn.execute(COMPILE, compile_parameters(consumer_id, condition))).fetchone()
                compiled += bool(row and row[0])
        return len(pending), compiled
