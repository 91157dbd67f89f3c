"""Compiler: takes rules as they were written and puts them into force.

Owns: the status of versions. Promises: a version is in force from a stated position on; what is invalid is marked with its error
and never evaluated; the others go on. One compiler works on a topic at a time, and the topic's rules stand still meanwhile."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from psycopg.rows import class_row

from headrace.core import encode
from headrace.db import AsyncConnection, query
from headrace.lang.condition import ConditionError, parse, shaped
from headrace.rules.match_functions import (
    SHARED_MIN,
    Member,
    inline_body,
    inline_function,
    match_body,
    match_function,
    match_name,
)

logger = logging.getLogger(__name__)

VERSIONS_MAX = 500
"""Versions compiled in one transaction: the topic's rules stand still meanwhile."""
# Below the server's deadlock timeout (1 s): a compiler that gets into a publisher's way gives in, and tries again.
INLINE_LOCK_MS = 500
_INLINE_LOCK = 0x6865616472616301


@dataclass(frozen=True)
class Pending:
    """A version as it was written."""

    version_id: int
    condition: str
    dropped: bool


async def pending_topics(conn: AsyncConnection) -> list[int]:
    """The topics with versions to compile."""
    return [row[0] for row in await (await conn.execute(query("rules/pending_topics"))).fetchall()]


async def compile_topic(conn: AsyncConnection, topic_id: int) -> int:
    """Compiles a topic's pending versions, at most VERSIONS_MAX, and puts them into force; returns how many there were."""
    async with conn.transaction():
        row = await (await conn.execute("select headrace_internal.begin_compile(%s)", (topic_id,))).fetchone()
        assert row is not None
        async with conn.cursor(row_factory=class_row(Pending)) as cursor:
            given = {"topic_id": topic_id, "limit": VERSIONS_MAX}
            found = await (await cursor.execute(query("rules/pending_versions"), given)).fetchall()
        compiled = encode([compile_version(version) for version in found])
        await conn.execute("select headrace_internal.take_effect(%s, %s, %s::jsonb)", (topic_id, row[0], compiled))
        await _write_match(conn, topic_id)
        await _write_inline(conn)
        await conn.execute("select headrace_internal.unwatch_topic(%s)", (topic_id,))
    await conn.execute("select headrace_internal.show_status()")
    return len(found)


def compile_version(version: Pending) -> dict[str, str | int | None | Sequence[int] | Sequence[str]]:
    """What headrace_internal.take_effect has to know about a version: its error, or its shape and constants."""
    if version.dropped:
        return {"version_id": version.version_id}
    try:
        condition = parse(version.condition)
        found = shaped(condition)
    except ConditionError as error:
        return {"version_id": version.version_id, "error": str(error)}
    except Exception as error:
        # A fault of ours must not hold up the topic: the rule is marked, and the others go on.
        logger.exception("the condition of rule version %s could not be compiled", version.version_id)
        return {"version_id": version.version_id, "error": f"could not be compiled: {type(error).__name__}: {error}"}
    kept = found.constants
    return {
        "version_id": version.version_id,
        "canonical": condition.text,
        "shape": found.shape,
        "key": found.key,
        "integers": kept.integers,
        "numerics": [format(number, "f") for number in kept.numerics],
        "texts": kept.texts,
        "moments": kept.moments,
    }


async def _members(conn: AsyncConnection, timing: str, topic_id: int | None) -> list[Member]:
    async with conn.cursor(row_factory=class_row(Member)) as cursor:
        given = {"timing": timing, "topic_id": topic_id, "limit": SHARED_MIN}
        return await (await cursor.execute(query("rules/shapes"), given)).fetchall()


async def _body(conn: AsyncConnection, signature: str) -> str | None:
    row = await (await conn.execute(query("rules/function_body"), {"function": signature})).fetchone()
    return row[0] if row else None


async def _write_match(conn: AsyncConnection, topic_id: int) -> None:
    signature = f"headrace_internal.{match_name(topic_id)}(bigint, bigint)"
    before = await _body(conn, signature)
    members = await _members(conn, "after", topic_id)
    if members and (body := match_body(topic_id, members)) != before:
        await conn.execute(match_function(topic_id, body))
    elif not members and before is not None:
        await conn.execute("select headrace_internal.drop_match(%s)", (topic_id,))


async def _write_inline(conn: AsyncConnection) -> None:
    """The inline rules of all topics share one trigger, so compilers of two topics take turns here."""
    before = await _body(conn, "headrace_internal.react_inline()")
    members = await _members(conn, "inline", None)
    if (inline_body(members) if members else None) == before:
        return
    await conn.execute("select pg_advisory_xact_lock(%s)", (_INLINE_LOCK,))
    await conn.execute("select set_config('lock_timeout', %s, true)", (f"{INLINE_LOCK_MS}ms",))
    before = await _body(conn, "headrace_internal.react_inline()")
    members = await _members(conn, "inline", None)
    if not members:
        await conn.execute(query("rules/drop_inline"))
        return
    await conn.execute(inline_function(inline_body(members)))
    if before is None:
        await conn.execute(query("rules/inline_trigger"))
