"""Compiler: activates the versions of rules.

Owns: the status of versions. Promises: a version is active from a stated position on; an invalid one is marked with its error
and never evaluated, and the others go on. One compiler works on a topic at a time; meanwhile no rule of the topic changes. Large
conditions are read and printed in a thread, so that the other loops of the node go on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from operator import attrgetter
from typing import TypeAlias

from psycopg.rows import class_row

from headrace.core import encode
from headrace.db import AsyncConnection, query
from headrace.definitions import limit_lock_waits
from headrace.lang.condition import ConditionError, parameterize, parse, to_postgres
from headrace.rules.programs import SHARED_MIN, ActiveVersion, Program, inline_program, match_program

logger = logging.getLogger(__name__)

CompiledVersion: TypeAlias = dict[str, str | int | float | None | Sequence[int] | Sequence[str]]

VERSIONS_MAX = 500
"""Versions compiled in one transaction: no rule of the topic can change meanwhile."""


@dataclass(frozen=True)
class PendingVersion:
    """A version as it was written."""

    version_id: int
    condition: str
    dropped: bool


async def compile_topic(conn: AsyncConnection, topic_id: int, *, lock_ms: int | None = None) -> int:
    """Compiles and activates at most VERSIONS_MAX pending versions of a topic; returns how many there were.

    Raises LockNotAvailable if inline rules come or go and another transaction holds the topic's row: other topics must not wait."""
    # Before the transaction: the locks must not wait for large conditions, and the server ends a transaction that is idle for a minute.
    known = await asyncio.to_thread(_compile_versions, await _pending_versions(conn, topic_id), {})
    async with conn.transaction():
        if lock_ms is not None:
            await limit_lock_waits(conn, lock_ms)
        statement = "select headrace_internal.begin_compilation(%s, 'headrace.rules', true)"
        row = await (await conn.execute(statement, (topic_id,))).fetchone()
        assert row is not None
        pending = await _pending_versions(conn, topic_id)
        known = await asyncio.to_thread(_compile_versions, pending, known)
        compiled = encode([known[version.version_id] for version in pending])
        version_ids = [version.version_id for version in pending]
        await conn.execute("select headrace_internal.take_effect(%s, %s, %s::jsonb)", (topic_id, row[0], compiled))
        await _write_programs(conn, topic_id, row[0])
        await conn.execute("select headrace_internal.unwatch(%s, 'headrace.rules')", (topic_id,))
    # Look at these only: to look at all that still wait, after every batch, would take a time that grows with the square of their number.
    await conn.execute("select headrace_internal.show_status('rule', %s)", (version_ids,))
    return len(pending)


async def _pending_versions(conn: AsyncConnection, topic_id: int) -> list[PendingVersion]:
    async with conn.cursor(row_factory=class_row(PendingVersion)) as cursor:
        parameters = {"topic_id": topic_id, "limit": VERSIONS_MAX}
        return await (await cursor.execute(query("rules/pending_versions"), parameters)).fetchall()


def _compile_versions(versions: Sequence[PendingVersion], known: Mapping[int, CompiledVersion]) -> dict[int, CompiledVersion]:
    """The compiled form of each version, by its id; what is known already is not compiled again."""
    return {version.version_id: known.get(version.version_id) or compile_version(version) for version in versions}


def compile_version(version: PendingVersion) -> CompiledVersion:
    """A version as headrace_internal.take_effect expects it: with its error, or with its shape, keys and constants."""
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
    access = parameterized.access
    bound = access.bound.value if access.bound else None
    return {
        "version_id": version.version_id,
        "canonical": condition.text,
        "filter": to_postgres(condition),
        "shape": parameterized.shape,
        "keys": access.keys,
        "variant": access.variant,
        "bound": None if isinstance(bound, str) else bound,
        "bound_text": bound if isinstance(bound, str) else None,
        **asdict(parameterized.constants),
        "numerics": [format(number, "f") for number in parameterized.constants.numerics],
    }


async def _write_programs(conn: AsyncConnection, topic_id: int, position: int) -> None:
    """Writes the topic's programs from its active versions."""
    _, program = await _checked_versions(conn, topic_id, "after", position)
    await _write(conn, topic_id, "after", program)
    inline, program = await _checked_versions(conn, topic_id, "inline", position)
    await _write(conn, topic_id, "late", await asyncio.to_thread(match_program, topic_id, inline) if inline else None)
    if await _write(conn, topic_id, "inline", program):
        await conn.execute("select headrace_internal.write_inline(%s)", (topic_id,))


async def _checked_versions(
    conn: AsyncConnection, topic_id: int, timing: str, position: int
) -> tuple[list[ActiveVersion], Program | None]:
    """The active versions of a topic whose program the server accepts, and that program; the others are marked invalid."""
    build = inline_program if timing == "inline" else match_program
    versions: list[ActiveVersion] = []
    active = await _active_versions(conn, topic_id, timing)
    errors = await asyncio.to_thread(list, map(_canonical_error, active))
    for version, unreadable in zip(active, errors, strict=True):
        if unreadable is None:
            versions.append(version)
        else:
            await _invalidate(conn, version, unreadable, position)
    if not versions:
        return [], None
    program = await asyncio.to_thread(build, topic_id, versions)
    if await _program_error(conn, timing, program) is None:
        return versions, program
    accepted: list[ActiveVersion] = []
    for _, group in groupby(versions, key=attrgetter("shape_id")):
        of_shape = list(group)
        error = await _program_error(conn, timing, await asyncio.to_thread(build, topic_id, of_shape))
        if error is None:
            accepted.extend(of_shape)
        else:
            logger.error("the server rejects the program of rule version %s: %s", of_shape[0].version_id, error)
            await _invalidate(conn, of_shape[0], f"the server rejects its program: {error}", position, same_shape=True)
    return accepted, await asyncio.to_thread(build, topic_id, accepted) if accepted else None


def _canonical_error(version: ActiveVersion) -> str | None:
    try:
        _ = version.condition
    except Exception as error:
        # Stored by us, so a bug or a damaged row: this rule is marked, and the others go on.
        logger.exception("the stored condition of rule version %s cannot be read", version.version_id)
        return f"its stored condition cannot be read ({type(error).__name__}: {error}); write the rule again"
    return None


async def _active_versions(conn: AsyncConnection, topic_id: int, timing: str) -> list[ActiveVersion]:
    async with conn.cursor(row_factory=class_row(ActiveVersion)) as cursor:
        parameters = {"timing": timing, "topic_id": topic_id, "limit": SHARED_MIN}
        return await (await cursor.execute(query("rules/shapes"), parameters)).fetchall()


async def _program_error(conn: AsyncConnection, timing: str, program: Program) -> str | None:
    statement = "select headrace_internal.check_program(%s, %s)"
    row = await (await conn.execute(statement, (timing, program.text))).fetchone()
    return row[0] if row else None


async def _invalidate(
    conn: AsyncConnection, version: ActiveVersion, error: str, position: int, *, same_shape: bool = False
) -> None:
    parameters = ([version.version_id], error, position, same_shape)
    await conn.execute("select headrace_internal.invalidate_versions(%s, %s, %s, %s)", parameters)


async def _write(conn: AsyncConnection, topic_id: int, kind: str, program: Program | None) -> bool:
    """True if the program has changed."""
    parameters: dict[str, object] = {"topic_id": topic_id, "kind": kind}
    if program:
        parameters |= {"checksum": program.checksum, "program": program.text} | asdict(program.parameters)
    statement = query("rules/write_program" if program else "rules/remove_program")
    return await (await conn.execute(statement, parameters)).fetchone() is not None
