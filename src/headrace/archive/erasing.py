"""Erasing: takes the data of one key out of a topic's log, its archive, and everything that was made of the events.

Owns: headrace.erasure. Promises: positions, ids, types and times stay; the database changes in one transaction, or not at all; files of
the archive follow one by one, and a crash between leaves the erasure pending until the next run. What it did is recorded without the
key and without any data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import msgspec

from headrace.archive.recording import lock_archive
from headrace.archive.rewriting import count_archived, erase_pending, find_archived_key
from headrace.db import Connection, Target, connect, fetch_rows, fetch_value, map_connection_errors, query, require_sessions
from headrace.log import Topic, get_topic, list_topics


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


def list_erasures(conn: Connection, topic: str | None = None, *, namespace: str | None = None) -> list[Erasure]:
    """The erasures of a namespace, or of one topic, newest first."""
    parameters = {"erasure_id": None, "topic": topic, "namespace": namespace}
    return fetch_rows(conn, Erasure, query("archive/erasures"), parameters)


def erase_key(
    target: Target,
    topic: str,
    key: str,
    *,
    fields: Sequence[str] | None = None,
    replace_key: bool = False,
    actions: bool = False,
    dry_run: bool = False,
    namespace: str | None = None,
) -> Erasure:
    """Erases the events of a key, in the log, the archive and what was made of them; with `fields` only these, such as
    `customer.email`. `replace_key` gives the events a random key. `actions`: also actions with this key that your own code sent.
    With `dry_run` nothing changes.

    Raises ArchiveBusy while the topic is archived, and NotFound if the files of its archive are not here."""
    require_sessions(target, f"erasing in {target}")
    with map_connection_errors(target), connect(target) as conn:
        topic_ = get_topic(conn, topic, namespace=namespace)
        lock_archive(conn, topic_)
        if not dry_run:
            erase_pending(conn, target, topic_)
        archived = find_archived_key(conn, topic_, key)
        names = {"event_ids": "event_id", "positions": "position", "times": "appended_at"}
        places = {name: [row[column] for row in archived] for name, column in names.items()}
        parameters = (topic, key, list(fields) if fields is not None else None, replace_key, actions)
        with conn.transaction(force_rollback=dry_run):
            erasure_id = fetch_value(
                conn,
                "select headrace.erase_key(%s, %s, %s, %s, %s, %s::jsonb, %s)",
                (*parameters, msgspec.json.encode(places).decode(), namespace),
            )
            pending = _pending_topics(conn, namespace)
            if dry_run:
                return _preview(conn, _erasure(conn, int(erasure_id), namespace), pending)
        _finish(conn, target, pending)
        return _erasure(conn, int(erasure_id), namespace)


def finish_erasures(target: Target, *, namespace: str | None = None) -> int:
    """Finishes erasures that a crash left pending in the archive; returns how many events it found in files."""
    require_sessions(target, f"erasing in {target}")
    with map_connection_errors(target), connect(target) as conn:
        return _finish(conn, target, _pending_topics(conn, namespace))


def _pending_topics(conn: Connection, namespace: str | None) -> list[Topic]:
    topics = list_topics(conn, namespace=namespace)
    statement = "select count(*) from headrace.pending_erasures(%s)"
    return [topic for topic in topics if fetch_value(conn, statement, (topic.topic_id,))]


def _finish(conn: Connection, target: Target, topics: Sequence[Topic]) -> int:
    total = 0
    for topic in topics:
        lock_archive(conn, topic)
        total += erase_pending(conn, target, topic)
    return total


def _preview(conn: Connection, erasure: Erasure, topics: Sequence[Topic]) -> Erasure:
    """The erasure as it would be with its files, inside the transaction that is rolled back."""
    count = 0
    for topic in topics:
        statement = "select unnest(p.event_ids)::text from headrace.pending_erasures(%s) p where p.erasure_id = %s"
        ids = {str(row[0]) for row in conn.execute(statement, (topic.topic_id, erasure.erasure_id)).fetchall()}
        count += count_archived(conn, topic, ids)
    row_counts = {**erasure.row_counts, "archive": count} if count else erasure.row_counts
    return replace(erasure, row_counts=row_counts, archives_pending=0)


def _erasure(conn: Connection, erasure_id: int, namespace: str | None) -> Erasure:
    parameters = {"erasure_id": erasure_id, "topic": None, "namespace": namespace}
    [erasure] = fetch_rows(conn, Erasure, query("archive/erasures"), parameters)
    return erasure
