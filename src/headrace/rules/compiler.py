"""Compiler: activates the versions of rules.

Owns: the status of versions. Promises: a version is active from a stated position on; an invalid one is marked with its error
and never evaluated, and the others go on. One compiler works on a topic at a time; meanwhile no rule of the topic changes."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from psycopg.rows import class_row

from headrace.core import encode
from headrace.db import AsyncConnection, query
from headrace.lang.condition import ConditionError, parameterize, parse
from headrace.rules.match_functions import (
    SHARED_MIN,
    ActiveVersion,
    inline_body,
    inline_function,
    match_body,
    match_function,
    match_name,
    separate_unreadable,
)

logger = logging.getLogger(__name__)

VERSIONS_MAX = 500
"""Versions compiled in one transaction: no rule of the topic can change meanwhile."""
# Below the server's deadlock timeout (1 s): a compiler that blocks a publisher gives up and tries again.
INLINE_LOCK_MS = 500


@dataclass(frozen=True)
class PendingVersion:
    """A version as it was written."""

    version_id: int
    condition: str
    dropped: bool


async def compile_topic(conn: AsyncConnection, topic_id: int) -> int:
    """Compiles and activates at most VERSIONS_MAX pending versions of a topic; returns how many there were."""
    async with conn.transaction():
        row = await (await conn.execute("select headrace_internal.begin_compile(%s)", (topic_id,))).fetchone()
        assert row is not None
        async with conn.cursor(row_factory=class_row(PendingVersion)) as cursor:
            parameters = {"topic_id": topic_id, "limit": VERSIONS_MAX}
            pending = await (await cursor.execute(query("rules/pending_versions"), parameters)).fetchall()
        await conn.execute(query("rules/clear_unreadable"), {"topic_id": topic_id})
        compiled = encode([compile_version(version) for version in pending])
        await conn.execute("select headrace_internal.take_effect(%s, %s, %s::jsonb)", (topic_id, row[0], compiled))
        await _write_match(conn, topic_id)
        await _write_inline(conn)
        await conn.execute("select headrace_internal.unwatch_topic(%s)", (topic_id,))
    await conn.execute("select headrace_internal.show_status()")
    return len(pending)


def compile_version(version: PendingVersion) -> dict[str, str | int | None | Sequence[int] | Sequence[str]]:
    """A version as headrace_internal.take_effect expects it: with its error, or with its shape and constants."""
    if version.dropped:
        return {"version_id": version.version_id}
    try:
        condition = parse(version.condition)
        parameterized = parameterize(condition)
    except ConditionError as error:
        return {"version_id": version.version_id, "error": str(error)}
    except Exception as error:
        # A bug of ours must not stop the topic: the rule is marked, and the others go on.
        logger.exception("the condition of rule version %s could not be compiled", version.version_id)
        return {"version_id": version.version_id, "error": f"could not be compiled: {type(error).__name__}: {error}"}
    return {
        "version_id": version.version_id,
        "canonical": condition.text,
        "shape": parameterized.shape,
        "key": parameterized.key,
        **asdict(parameterized.constants),
        "numerics": [format(number, "f") for number in parameterized.constants.numerics],
    }


async def _active_versions(conn: AsyncConnection, timing: str, topic_id: int | None) -> list[ActiveVersion]:
    async with conn.cursor(row_factory=class_row(ActiveVersion)) as cursor:
        parameters = {"timing": timing, "topic_id": topic_id, "limit": SHARED_MIN}
        versions = await (await cursor.execute(query("rules/shapes"), parameters)).fetchall()
    readable, errors = separate_unreadable(versions)
    for version_id, error in errors.items():
        logger.error("rule version %s cannot be evaluated: %s", version_id, error)
        await conn.execute(query("rules/record_unreadable"), {"version_id": version_id, "error": error})
    return readable


async def _current_body(conn: AsyncConnection, signature: str) -> str | None:
    """The body of a generated function, or None."""
    row = await (await conn.execute("select p.prosrc from pg_proc p where p.oid = to_regprocedure(%s)", (signature,))).fetchone()
    return row[0] if row else None


async def _write_match(conn: AsyncConnection, topic_id: int) -> None:
    current = await _current_body(conn, f"headrace_internal.{match_name(topic_id)}(bigint, bigint)")
    versions = await _active_versions(conn, "after", topic_id)
    if versions and (body := match_body(topic_id, versions)) != current:
        await conn.execute(match_function(topic_id, body))
    elif not versions and current is not None:
        await conn.execute("select headrace_internal.drop_match(%s)", (topic_id,))


async def _write_inline(conn: AsyncConnection) -> None:
    """The inline rules of all topics share one trigger, so compilers of two topics take turns here."""
    current, versions = await _inline_rules(conn)
    if (inline_body(versions) if versions else None) == current:
        return
    await conn.execute("select headrace_internal.take_lock('inline rules')")
    await conn.execute("select set_config('lock_timeout', %s, true)", (f"{INLINE_LOCK_MS}ms",))
    current, versions = await _inline_rules(conn)
    if not versions:
        await conn.execute(query("rules/drop_inline"))
        return
    await conn.execute(inline_function(inline_body(versions)))
    if current is None:
        await conn.execute(query("rules/inline_trigger"))


async def _inline_rules(conn: AsyncConnection) -> tuple[str | None, list[ActiveVersion]]:
    current = await _current_body(conn, "headrace_internal.react_inline()")
    return current, await _active_versions(conn, "inline", None)
