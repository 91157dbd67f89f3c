"""Compiles the pending versions of correlators and activates them.

Owns: the status of versions, and what happens to the keys. Promises: a version is active from a stated position on; an invalid one
is marked with its error and never runs, and its keys keep their state; the other correlators continue."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from psycopg.rows import class_row

from headrace.core import JSON, FeedbackLoop, HeadraceError, Invalid, UnregisteredName, encode
from headrace.correlators.analysis_process import KnownAnswers, analyse
from headrace.correlators.correlator import KeyEffect, map_states
from headrace.correlators.feedback import CorrelatorRow, feedback, links_in, links_of
from headrace.correlators.instances import array_literal
from headrace.correlators.outputs import check_tokens
from headrace.correlators.symbols import classifier_of
from headrace.db import AsyncConnection, query
from headrace.definitions import limit_lock_waits
from headrace.lang.condition import parse_scalar
from headrace.lang.ecl import Budget, SimpleTable, StateMapping, Table, compile, from_json, parse, to_json

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class PendingVersion:
    """A version as written."""

    version_id: int
    namespace: str
    correlator: str
    topic: str
    topic_id: int
    key: str | None
    pattern: str
    outputs: Mapping[str, Mapping[str, object]]
    active: bool
    allow_feedback: bool
    restart: bool
    dropped: bool
    unknown_names: str
    forgets: bool


@dataclass(frozen=True)
class Compiled:
    """The result of compiling a version: a table, perhaps with a warning, or an error."""

    table: Table | None = None
    warning: str | None = None
    error: str | None = None


async def compile_correlator(
    conn: AsyncConnection, correlator_id: int, *, known: KnownAnswers | None = None, lock_ms: int | None = None
) -> int:
    """Compiles the pending versions of a correlator and activates the last one; returns how many there were.

    With `known` it raises TooLong if that takes an answer of a process that is not known."""
    # Before the transaction: its locks must not wait for a large pattern. The cache serves the same versions below.
    compiled = {version.version_id: await _compile(version, known) for version in await _pending(conn, correlator_id)}
    async with conn.transaction():
        if lock_ms is not None:
            await limit_lock_waits(conn, lock_ms)
        row = await (await conn.execute(query("correlators/begin_compilation"), {"correlator_id": correlator_id})).fetchone()
        position = row[0] if row else None
        versions = await _pending(conn, correlator_id)
        for version in versions:
            if version.version_id not in compiled:
                compiled[version.version_id] = await _compile(version, known)
        for version in versions[:-1]:
            # Replaced before it was ever active: compiled for the record only.
            await _mark(conn, version, compiled[version.version_id])
        if versions:
            await _activate(conn, correlator_id, versions[-1], compiled[versions[-1].version_id], position, known)
        else:
            # It kept its consumer because a transaction was open when it was deactivated.
            await conn.execute(query("correlators/unwatch"), {"correlator_id": correlator_id})
    return len(versions)


async def _pending(conn: AsyncConnection, correlator_id: int) -> list[PendingVersion]:
    async with conn.cursor(row_factory=class_row(PendingVersion)) as cursor:
        parameters = {"correlator_id": correlator_id}
        return await (await cursor.execute(query("correlators/pending_correlator_versions"), parameters)).fetchall()


async def _compile(version: PendingVersion, known: KnownAnswers | None) -> Compiled:
    try:
        return await analyse(compile_pattern, version, chars=len(version.pattern), known=known)
    except Invalid as error:
        return Compiled(error=str(error))


def compile_pattern(version: PendingVersion, *, budget: Budget | None = None) -> Compiled:
    """The table of a version, or its error. A bug of ours becomes an error too: it must not stop the other correlators."""
    try:
        table = compile(parse(version.pattern), budget=budget)
        if version.key is not None:
            parse_scalar(version.key)
        return Compiled(table, _output_warning(version, table))
    except HeadraceError as error:
        return Compiled(error=str(error))
    except Exception as error:
        logger.exception("the pattern of correlator version %s could not be compiled", version.version_id)
        return Compiled(error=f"could not be compiled: {type(error).__name__}: {error}")


def _output_warning(version: PendingVersion, table: Table) -> str | None:
    """Tokens without an output: rejected, a warning or allowed, as unknown names are. Raises InvalidOutputs for an output of a token
    that is never pushed."""
    check_tokens(version.outputs, table.tokens)
    if version.unknown_names == "allow":
        return None
    silent = [token for token in table.tokens if token not in version.outputs]
    warning = "; ".join(f"token {token} becomes nothing: give it an output" for token in silent)
    if warning and version.unknown_names == "refuse":
        raise UnregisteredName(warning)
    return warning or None


async def _mark(conn: AsyncConnection, version: PendingVersion, compiled: Compiled) -> None:
    canonical = compiled.table.pattern if compiled.table else None
    error = None if version.dropped else compiled.error
    parameters = {"version_id": version.version_id, "error": error, "canonical": canonical, "warning": compiled.warning}
    await conn.execute(query("correlators/mark_version"), parameters)


async def _activate(
    conn: AsyncConnection,
    correlator_id: int,
    version: PendingVersion,
    compiled: Compiled,
    position: int | None,
    known: KnownAnswers | None,
) -> None:
    if compiled.table and version.active:
        compiled = await _without_feedback(conn, version, compiled, known)
    classifier = ""
    if compiled.table:
        classifier = classifier_of(version.topic_id, version.key, compiled.table, forgets=version.forgets)
        compiled = await _accepted(conn, compiled, classifier)
    is_retired = not version.active or position is None
    if is_retired or compiled.table is None:
        await _mark(conn, version, compiled)
        await conn.execute("select headrace_internal.stop_correlator(%s, %s, %s)", (correlator_id, position, is_retired))
    else:
        effect = await _carry_keys(conn, correlator_id, version, compiled.table, known)
        program = encode(program_of(compiled.table) | {"classifier": classifier})
        parameters = (version.version_id, position, compiled.table.pattern, compiled.warning, program)
        statement = "select headrace_internal.start_correlator(%s, %s, %s, %s, %s::jsonb, %s, %s)"
        await conn.execute(statement, (*parameters, effect.carried, effect.restarted))


async def _accepted(conn: AsyncConnection, compiled: Compiled, classifier: str) -> Compiled:
    """An error if the server rejects the classifier: the correlator must not fail on its first batch."""
    row = await (await conn.execute("select headrace_internal.check_program('classifier', %s)", (classifier,))).fetchone()
    return compiled if row is None or row[0] is None else Compiled(error=f"the server rejects its program: {row[0]}")


async def _without_feedback(
    conn: AsyncConnection, version: PendingVersion, compiled: Compiled, known: KnownAnswers | None
) -> Compiled:
    assert compiled.table is not None
    if version.allow_feedback or not any("event" in output for output in version.outputs.values()):
        return compiled
    # One compiler of a namespace at a time: two that each compile one half of a loop would not see it.
    await conn.execute("select headrace_internal.take_lock(%s)", (f"feedback {version.namespace}",))
    parameters = {"correlator": version.correlator, "namespace": version.namespace}
    rows = await (await conn.execute(query("correlators/other_correlators"), parameters)).fetchall()
    try:
        loop = await analyse(find_loop, version, compiled.table, rows, known=known)
    except Invalid as error:
        return Compiled(error=f"its feedback could not be analysed: {error}")
    return compiled if loop is None else Compiled(error=str(FeedbackLoop(loop)))


def find_loop(
    version: PendingVersion, table: Table, others: Sequence[CorrelatorRow], *, budget: Budget | None = None
) -> str | None:
    """The loop that a version would close, in words."""
    own = links_of(version.correlator, version.topic, table, version.outputs, budget=budget)
    return feedback(own, links_in(others, budget=budget))


async def _carry_keys(
    conn: AsyncConnection, correlator_id: int, version: PendingVersion, table: Table, known: KnownAnswers | None
) -> KeyEffect:
    """Maps the states of the keys to the new table; a key whose state has no equivalent starts afresh."""
    parameters = {"correlator": version.correlator, "namespace": version.namespace}
    before = await (await conn.execute(query("correlators/running_table"), parameters)).fetchone()
    old: list[str] = []
    new: list[str] = []
    timers: list[int | None] = []
    if before is not None and before[1] == version.key and not version.restart:
        mapping = await _map_states(version, before[0], table, known)
        if mapping is None:
            statement = "select count(*) from headrace.correlator_instance where correlator_id = %s"
            row = await (await conn.execute(statement, (correlator_id,))).fetchone()
            return KeyEffect(int(row[0]) if row else 0, 0)
        old = [array_literal(units) for units in mapping.units]
        new = [array_literal(units) for units in mapping.units.values()]
        timers = list(mapping.timers)
    statement = "select carried, restarted from headrace_internal.carry_instances(%s, %s::text[], %s::text[], %s::integer[])"
    row = await (await conn.execute(statement, (correlator_id, old, new, timers))).fetchone()
    return KeyEffect(*row) if row else KeyEffect(0, 0)


async def _map_states(version: PendingVersion, old: str, new: Table, known: KnownAnswers | None) -> StateMapping | None:
    try:
        return await analyse(map_states, from_json(old), new, known=known)
    except Invalid as error:
        logger.warning("correlator %s: all keys start afresh: %s", version.correlator, error)
        return StateMapping({}, ())


def program_of(table: Table) -> dict[str, JSON]:
    """A table as headrace.correlator_table stores it; the arrays only for a simple one."""
    compiled = to_json(table).decode()
    if not table.simple:
        return {"compiled": compiled, "simple": False, "symbols": 0}
    simple = SimpleTable.from_table(table)
    return {
        "compiled": compiled,
        "simple": True,
        "symbols": simple.width,
        "rows": [following * simple.width for following in simple.following],
        "marks": list(simple.marks),
        "idle": list(simple.idle),
        "tokens": [list(tokens) for tokens in simple.tokens],
    }
