"""Compiler of correlators: takes them as they were written and puts them into force.

Owns: the status of their versions, and what becomes of the keys. Promises: a version is in force from a stated position on; what
is invalid is marked with its error and never run, its keys wait where they stand; the others go on."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from psycopg.rows import class_row

from headrace.core import FeedbackLoop, HeadraceError, UnknownName, encode
from headrace.correlators.carrying import Carried, carrying
from headrace.correlators.feedback import feedback, links_in, links_of
from headrace.correlators.instances import literal
from headrace.correlators.symbols import symbols_body, symbols_function
from headrace.db import AsyncConnection, query
from headrace.lang.condition import parse_scalar
from headrace.lang.ecl import Flat, Table, compile, from_json, parse, to_json

logger = logging.getLogger(__name__)

_FEEDBACK_LOCK = 0x6865616472616302


@dataclass(frozen=True)
class PendingVersion:
    """A version as it was written."""

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


@dataclass(frozen=True)
class Compiled:
    """What became of a version's text: a table with a word of warning, or an error."""

    table: Table | None = None
    warning: str | None = None
    error: str | None = None


async def pending_correlators(conn: AsyncConnection) -> list[int]:
    """The correlators with versions to compile."""
    return [row[0] for row in await (await conn.execute(query("correlators/pending_correlators"))).fetchall()]


async def compile_correlator(conn: AsyncConnection, correlator_id: int) -> int:
    """Compiles a correlator's pending versions and puts the last one into force; returns how many there were."""
    async with conn.transaction():
        row = await (await conn.execute("select headrace_internal.begin_correlator(%s)", (correlator_id,))).fetchone()
        position = row[0] if row else None
        async with conn.cursor(row_factory=class_row(PendingVersion)) as cursor:
            given = {"correlator_id": correlator_id}
            found = await (await cursor.execute(query("correlators/pending_correlator_versions"), given)).fetchall()
        for version in found[:-1]:
            # Replaced before it came into force: told for the record.
            await _mark(conn, version, compile_pattern(version))
        if found:
            await _take_effect(conn, correlator_id, found[-1], position)
    return len(found)


def compile_pattern(version: PendingVersion) -> Compiled:
    """The table of a version, or its error. A fault of ours must not hold up others, so it is an error like any other."""
    try:
        table = compile(parse(version.pattern))
        if version.key is not None:
            parse_scalar(version.key)
        return Compiled(table, _oddities(version, table))
    except HeadraceError as error:
        return Compiled(error=str(error))
    except Exception as error:
        logger.exception("the pattern of correlator version %s could not be compiled", version.version_id)
        return Compiled(error=f"could not be compiled: {type(error).__name__}: {error}")


def _oddities(version: PendingVersion, table: Table) -> str | None:
    """Tokens that become nothing, and outputs of tokens that are never pushed: refused, told or allowed, as unknown names are."""
    if version.unknown_names == "allow":
        return None
    silent = [token for token in table.tokens if token not in version.outputs]
    idle = [token for token in version.outputs if token not in table.tokens]
    told = "; ".join(
        [f"token {token} becomes nothing: give it an output" for token in silent]
        + [f"output {token} is of a token that the pattern does not push" for token in idle]
    )
    if told and version.unknown_names == "refuse":
        raise UnknownName(told)
    return told or None


async def _mark(conn: AsyncConnection, version: PendingVersion, compiled: Compiled) -> None:
    canonical = compiled.table.pattern if compiled.table else None
    error = None if version.dropped else compiled.error
    given = (version.version_id, error, canonical, compiled.warning)
    await conn.execute("select headrace_internal.mark_correlator(%s, %s, %s, %s)", given)


async def _take_effect(conn: AsyncConnection, correlator_id: int, version: PendingVersion, position: int | None) -> None:
    compiled = compile_pattern(version)
    if compiled.table and version.active:
        compiled = await _without_feedback(conn, version, compiled)
    if not version.active or position is None:
        await _mark(conn, version, compiled)
        await conn.execute("select headrace_internal.retire_correlator(%s, %s)", (correlator_id, position))
    elif compiled.table is None:
        await _mark(conn, version, compiled)
        await conn.execute("select headrace_internal.halt_correlator(%s, %s)", (correlator_id, position))
    else:
        carried = await _carry(conn, correlator_id, version, compiled.table)
        body = symbols_body(version.topic_id, version.key, compiled.table)
        await conn.execute(symbols_function(correlator_id, body))
        program = encode(program_of(compiled.table))
        told = (compiled.table.pattern, compiled.warning, program, carried.carried, carried.restarted)
        statement = "select headrace_internal.start_correlator(%s, %s, %s, %s, %s::jsonb, %s, %s)"
        await conn.execute(statement, (version.version_id, position, *told))


async def _without_feedback(conn: AsyncConnection, version: PendingVersion, compiled: Compiled) -> Compiled:
    assert compiled.table is not None
    own = links_of(version.correlator, version.topic, compiled.table, version.outputs)
    if version.allow_feedback or not own:
        return compiled
    # Two compilers, each with one half of a loop, would not see it: one after the other.
    await conn.execute("select pg_advisory_xact_lock(%s)", (_FEEDBACK_LOCK,))
    given = {"correlator": version.correlator, "namespace": version.namespace}
    rows = await (await conn.execute(query("correlators/other_correlators"), given)).fetchall()
    loop = feedback(own, links_in(rows))
    return compiled if loop is None else Compiled(error=str(FeedbackLoop(loop)))


async def _carry(conn: AsyncConnection, correlator_id: int, version: PendingVersion, table: Table) -> Carried:
    given = {"correlator": version.correlator, "namespace": version.namespace}
    before = await (await conn.execute(query("correlators/running_table"), given)).fetchone()
    old: list[str] = []
    new: list[str] = []
    timers: list[int | None] = []
    if before is not None and before[1] == version.key and not version.restart:
        goes_on = carrying(version.correlator, from_json(before[0]), table)
        if goes_on is None:
            statement = "select count(*) from headrace_internal.correlator_instance where correlator_id = %s"
            counted = await conn.execute(statement, (correlator_id,))
            return Carried(int((await counted.fetchone() or (0,))[0]), 0)
        old = [literal(units) for units in goes_on.units]
        new = [literal(units) for units in goes_on.units.values()]
        timers = list(goes_on.timers)
    statement = "select carried, restarted from headrace_internal.carry_instances(%s, %s::text[], %s::text[], %s::integer[])"
    row = await (await conn.execute(statement, (correlator_id, old, new, timers))).fetchone()
    return Carried(*row) if row else Carried(0, 0)


def program_of(table: Table) -> dict[str, str | bool | int | list[int] | list[list[str]]]:
    """A table as headrace_internal.correlator_table keeps it; the arrays only for a simple one."""
    compiled = to_json(table).decode()
    if not table.simple:
        return {"compiled": compiled, "simple": False, "symbols": 0}
    (unit,) = table.units
    assert isinstance(unit, Flat)
    marks = [_mark_of(unit, cell) for cell in range(len(unit.next))]
    idle = [s for s in range(unit.symbols) if not any(marks[s :: unit.symbols])]
    return {
        "compiled": compiled,
        "simple": True,
        "symbols": unit.symbols,
        "rows": [following * unit.symbols for following in unit.next],
        "marks": marks,
        "idle": idle,
        "tokens": [[table.tokens[token] for token in tokens] for tokens, _ in table.actions],
    }


def _mark_of(unit: Flat, cell: int) -> int:
    moved = unit.next[cell] != cell // unit.symbols or unit.action[cell] != 0
    return unit.action[cell] * 4 + (2 if moved and unit.next[cell] == 0 else 0) + moved
