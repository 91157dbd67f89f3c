"""Erasing: takes the data of one key out of a topic's log, its archive, and everything that was made of the events.

Owns: headrace.erasure. Promises: positions, ids, types and times stay; the database changes in one transaction, or not at all; files of
the archive and VACUUM follow, and a crash between leaves the erasure pending until the next run. What it did is recorded without the
key and without any data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import msgspec
import psycopg.sql

from headrace.core import ArchiveBusy
from headrace.db import Connection, Target, connect, fetch_rows, fetch_value, map_connection_errors, query, require_sessions
from headrace.log.archive.recording import lock_archive
from headrace.log.archive.rewriting import count_archived, erase_pending, find_archived_key
from headrace.log.topics import Topic, get_topic, list_topics


@dataclass(frozen=True)
class Erasure:
    """What was erased, by whom and when: the number of rows by place, never the key."""

    erasure_id: int
    topic: str
    fields: list[str] | None
    """The fields that were redacted; None: whole payloads were erased."""
    new_key: str | None
    """The key that the events have now; None: they kept theirs."""
    erased_by: str
    erased_at: datetime
    row_counts: Mapping[str, int]
    archives_pending: int
    """The number of topics whose archive files still have to be written again."""
    tables_pending: list[str]
    """Tables with old versions of the erased rows, which VACUUM still has to remove."""


def list_erasures(conn: Connection, topic: str | None = None, *, namespace: str | None = None) -> list[Erasure]:
    """The erasures of a namespace, or of one topic, newest first."""
    parameters = {"erasure_id": None, "topic": topic, "namespace": namespace}
    return fetch_rows(conn, Erasure, query("log/archive/erasures"), parameters)


def erase_key(
    target: Target,
    topic: str,
    key: str,
    *,
    fields: Sequence[str] | None = None,
    replace_key: bool = False,
    actions: bool = False,
    dry_run: bool = False,
    vacuum: bool = True,
    rewrite: bool = False,
    namespace: str | None = None,
) -> Erasure:
    """Erases the events of a key, in the log, the archive and what was made of them; with `fields` only these, such as
    `customer.email`. `replace_key` gives the events a random key. `actions`: also actions with this key that your own code sent.
    With `dry_run` nothing changes. `vacuum` then removes the old versions of the rows, as far as the role may; `rewrite` does it by
    VACUUM FULL, which locks each table. Tables where they are left are in `tables_pending`.

    Raises ArchiveBusy while the topic is archived, and NotFound if the files of its archive are not here."""
    require_sessions(target, f"erasing in {target}")
    with map_connection_errors(target), connect(target) as conn:
        topic_ = get_topic(conn, topic, namespace=namespace)
        lock_archive(conn, topic_)
        if not dry_run:
            erase_pending(conn, target, topic_)
        archived = find_archived_key(conn, topic_, key)
        with conn.transaction(force_rollback=dry_run):
            erasure_id = _erase(conn, topic_, key, archived, fields=fields, replace_key=replace_key, actions=actions)
            pending = _pending_topics(conn, namespace)
            if dry_run:
                return _preview(conn, _erasure(conn, erasure_id, namespace), pending)
        _finish(conn, target, pending)
        if vacuum:
            _vacuum(conn, [_erasure(conn, erasure_id, namespace)], rewrite=rewrite)
        return _erasure(conn, erasure_id, namespace)


def erase_key_in_transaction(
    conn: Connection,
    topic: str,
    key: str,
    *,
    fields: Sequence[str] | None = None,
    replace_key: bool = False,
    actions: bool = False,
    namespace: str | None = None,
) -> Erasure:
    """Erases the events of a key in the caller's transaction, as `erase_key` does. The files of the archive are only read;
    `finish_erasures` writes them again and vacuums. The count of `archive` is of this topic's files.

    Raises ArchiveBusy while the topic is archived, and NotFound if the files of its archive are not here."""
    topic_ = get_topic(conn, topic, namespace=namespace)
    archived = find_archived_key(conn, topic_, key)
    erasure_id = _erase(conn, topic_, key, archived, fields=fields, replace_key=replace_key, actions=actions)
    # Since then nothing can be archived until the end of the transaction.
    if len(find_archived_key(conn, topic_, key)) != len(archived):
        raise ArchiveBusy(f"topic {topic!r} was archived meanwhile; try again")
    erasure = _erasure(conn, erasure_id, namespace)
    return replace(erasure, row_counts={**erasure.row_counts, "archive": len(archived)}) if archived else erasure


def finish_erasures(target: Target, *, rewrite: bool = False, namespace: str | None = None) -> VacuumResult:
    """Finishes the pending erasures of a namespace: writes files of the archive again, and vacuums."""
    require_sessions(target, f"erasing in {target}")
    with map_connection_errors(target), connect(target) as conn:
        _finish(conn, target, _pending_topics(conn, namespace))
        erasures = [erasure for erasure in list_erasures(conn, namespace=namespace) if erasure.tables_pending]
        return _vacuum(conn, erasures, rewrite=rewrite)


def _erase(
    conn: Connection,
    topic: Topic,
    key: str,
    archived: Sequence[Mapping[str, object]],
    *,
    fields: Sequence[str] | None,
    replace_key: bool,
    actions: bool,
) -> int:
    names = {"event_ids": "event_id", "positions": "position", "times": "appended_at"}
    columns = {name: [row[column] for row in archived] for name, column in names.items()}
    parameters = (topic.topic, key, list(fields) if fields is not None else None, replace_key, actions)
    statement = "select headrace.erase_key(%s, %s, %s, %s, %s, %s::jsonb, %s)"
    return int(fetch_value(conn, statement, (*parameters, msgspec.json.encode(columns).decode(), topic.namespace)))


def _vacuum(conn: Connection, erasures: Sequence[Erasure], *, rewrite: bool) -> VacuumResult:
    """Vacuums once for all these erasures, and records what is clean."""
    result = vacuum_tables(conn, [table for erasure in erasures for table in erasure.tables_pending], rewrite=rewrite)
    for erasure in erasures:
        conn.execute("select headrace.end_vacuum(%s, %s)", (erasure.erasure_id, result.tables))
    return result


def _pending_topics(conn: Connection, namespace: str | None) -> list[Topic]:
    topics = list_topics(conn, namespace=namespace)
    statement = "select count(*) from headrace.pending_erasures(%s)"
    return [topic for topic in topics if fetch_value(conn, statement, (topic.topic_id,))]


def _finish(conn: Connection, target: Target, topics: Sequence[Topic]) -> None:
    for topic in topics:
        lock_archive(conn, topic)
        erase_pending(conn, target, topic)


def _preview(conn: Connection, erasure: Erasure, topics: Sequence[Topic]) -> Erasure:
    """The erasure as it would be with its files, inside the transaction that is rolled back."""
    count = 0
    for topic in topics:
        statement = "select unnest(p.event_ids)::text from headrace.pending_erasures(%s) p where p.erasure_id = %s"
        ids = {str(row[0]) for row in conn.execute(statement, (topic.topic_id, erasure.erasure_id)).fetchall()}
        count += count_archived(conn, topic, ids)
    row_counts = {**erasure.row_counts, "archive": count} if count else erasure.row_counts
    return replace(erasure, row_counts=row_counts, archives_pending=0, tables_pending=[])


def _erasure(conn: Connection, erasure_id: int, namespace: str | None) -> Erasure:
    parameters = {"erasure_id": erasure_id, "topic": None, "namespace": namespace}
    [erasure] = fetch_rows(conn, Erasure, query("log/archive/erasures"), parameters)
    return erasure


WITNESS = "headrace_internal.erasure"
"""Every erasure changes a row of it more than once, and little else does. If VACUUM leaves old versions here, then an older
transaction is still open, and VACUUM cannot remove those of the other tables either."""


@dataclass(frozen=True)
class VacuumResult:
    """What VACUUM did for some erasures."""

    tables: list[str]
    """Tables without old versions of erased rows now."""
    not_owned: list[str]
    """Tables that this role may not vacuum."""
    is_blocked: bool
    """True if an older transaction is still open: PostgreSQL keeps the old versions until it has ended."""


@dataclass(frozen=True)
class _Table:
    name: str
    oid: int
    schema_name: str
    table_name: str
    may_vacuum: bool


def vacuum_tables(conn: Connection, tables: Sequence[str], *, rewrite: bool) -> VacuumResult:
    """Removes the old versions of erased rows from these tables, as far as the role may. `rewrite` writes each of them anew (VACUUM
    FULL), which locks it meanwhile. The connection is in autocommit mode. Tables that do not exist any more count as clean.

    An erasure updates and deletes rows. PostgreSQL keeps their old versions on disk until VACUUM, and autovacuum may not come for
    months to a table of which it changed only a few rows. VACUUM frees the space without overwriting it."""
    names = sorted({*tables, WITNESS} if tables else (), key=lambda name: name != WITNESS)
    rows = [_Table(*row) for row in conn.execute(query("log/archive/vacuum_rights"), {"tables": names}).fetchall()]
    not_owned = [row.name for row in rows if not row.may_vacuum]
    for row in rows:
        if not row.may_vacuum:
            continue
        table = psycopg.sql.Identifier(row.schema_name, row.table_name)
        if rewrite:
            conn.execute(psycopg.sql.SQL("vacuum full {}").format(table))
        # After VACUUM FULL too: only this counts what is left.
        conn.execute(psycopg.sql.SQL("vacuum {}").format(table))
        if row.name == WITNESS and fetch_value(conn, "select pg_catalog.pg_stat_get_dead_tuples(%s::oid)", (row.oid,)):
            return VacuumResult([], not_owned, is_blocked=True)
    return VacuumResult([name for name in names if name not in not_owned], not_owned, is_blocked=False)
