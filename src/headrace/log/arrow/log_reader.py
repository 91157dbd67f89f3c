"""Reads a range of positions from the log as Arrow batches, straight from PostgreSQL's binary COPY."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from psycopg import sql

from headrace.lang.condition import parse, to_postgres
from headrace.log.archive import FileRange, StoredRange, literal_query, plain_column
from headrace.log.arrow.selection import Selection

if TYPE_CHECKING:
    import pyarrow as pa
    from adbc_driver_manager.dbapi import Connection as ArrowConnection

# In a scope of its own, where the names of the condition language are the only ones.
_CONDITION = "(select {} from (select l.payload as object, l.type, l.key, l.headers, l.emitted_at) c)"

PART_POSITIONS_FIRST, PART_POSITIONS_MAX = 8_192, 262_144
"""Positions of a part that is put in order: the first, and the most of any other."""
PART_BYTES = 32 << 20
"""What a part should have: long enough to hide the cost of a statement, short enough for memory, whatever the size of payloads."""


@dataclass(frozen=True)
class LockedRange:
    """A range that nothing is dropped from until the transaction ends: its parts in the archive, and the part in the log."""

    archived: tuple[FileRange, ...]
    logged: StoredRange
    missing: int
    """Positions that retention has dropped and that the archive does not have."""


def lock_range(conn: ArrowConnection, span: StoredRange, *, use_archive: bool, folder: str | None = None) -> LockedRange:
    """Keeps the time partitions of a topic from being dropped, and looks where the positions of a range are now."""
    with conn.cursor() as cursor:
        # The caller decides how many connections read at a time; the server's workers would only compete with them. Until the
        # end of the transaction: behind a pooler the connection is shared.
        cursor.adbc_statement.set_sql_query("set local max_parallel_workers_per_gather = 0; set local jit = off")
        cursor.adbc_statement.execute_update()
        # Lock before looking: retention that comes later waits for us, retention that came earlier is visible.
        cursor.execute(literal_query("log/lock_log", topic_id=span.topic_id))
        cursor.fetchall()
        cursor.execute(literal_query("log/dropped_to", topic_id=span.topic_id))
        row = cursor.fetchone()
        log_first = span.until if row is None else min(max(int(row[0]) + 1, span.first), span.until)
        dropped = replace(span, until=log_first)
        archived: tuple[FileRange, ...] = ()
        if use_archive and len(dropped):
            cursor.execute(literal_query("log/archive/files", topic_id=span.topic_id, first=dropped.first, until=dropped.until))
            archived = tuple(FileRange.from_row(row, dropped, folder) for row in cursor.fetchall())
    found = sum(file.until - file.first for file in archived)
    return LockedRange(archived, replace(span, first=log_first), len(dropped) - found)


def read_log_range(conn: ArrowConnection, span: StoredRange, selection: Selection) -> Iterator[pa.RecordBatch]:
    """The selected rows of a range, with the selection's columns, in whatever order is fastest; JSON is text."""
    import pyarrow as pa

    with conn.cursor() as cursor:
        cursor.execute(read_statement(span, selection))
        for batch in cursor.fetch_record_batch():
            yield pa.RecordBatch.from_arrays([plain_column(column) for column in batch.columns], names=batch.schema.names)


def read_log_range_in_order(conn: ArrowConnection, span: StoredRange, selection: Selection) -> Iterator[pa.RecordBatch]:
    """The same, by position.

    The server would sort all rows of an `order by` before it sends the first: the rights of a role are checked in a view, and an
    order does not pass through it to the index. So a range is read in parts, which come in order nearly always, and else are sorted here."""
    import pyarrow as pa
    import pyarrow.compute as pc

    names = [*selection.columns, *(extract.name for extract in selection.extracts)]
    with_position = replace(selection, columns=(*(name for name in selection.columns if name != "position"), "position"))
    for batches in _read_parts(conn, span, with_position):
        if not batches:
            continue
        table = pa.Table.from_batches(batches)
        # None for a single row.
        if (pc.min(pc.pairwise_diff(table.column("position").combine_chunks())).as_py() or 1) > 0:
            yield from (batch.select(names) for batch in batches)
        else:
            yield from table.sort_by("position").select(names).to_batches()


def _read_parts(conn: ArrowConnection, span: StoredRange, selection: Selection) -> Iterator[list[pa.RecordBatch]]:
    """The range part by part. From the second on, the next part is read while the caller works on the one before: many callers
    want no more than the first."""

    def read(first: int, count: int) -> tuple[int, list[pa.RecordBatch]]:
        """The events of a part, and the position after it."""
        until = min(first + count, span.until)
        return until, list(read_log_range(conn, replace(span, first=first, until=until), selection))

    # One thread, and it has ended when this generator has: the connection is never used twice at a time.
    with ThreadPoolExecutor(1, thread_name_prefix="next part of the log") as ahead:
        following: Future[tuple[int, list[pa.RecordBatch]]] | None = None
        first, count = span.first, PART_POSITIONS_FIRST
        while first < span.until:
            until, batches = read(first, count) if following is None else following.result()
            bytes_each = sum(batch.nbytes for batch in batches) / (until - first)
            count = min(PART_POSITIONS_MAX, max(1, int(PART_BYTES / max(bytes_each, 1))))
            is_first = first == span.first
            first = until
            following = ahead.submit(read, first, count) if first < span.until and not is_first else None
            yield batches


def read_statement(span: StoredRange, selection: Selection) -> str:
    """The statement that reads a range."""
    extracts = [
        sql.SQL(", l.payload {} {}::text[] as {}").format(
            sql.SQL("#>" if extract.as_json else "#>>"), sql.Literal(list(extract.path)), sql.Identifier(extract.name)
        )
        for extract in selection.extracts
    ]
    names = [*selection.read_columns, *(extract.name for extract in selection.extracts)]
    rows, where = selection.rows, selection.where
    return literal_query(
        "log/arrow_rows",
        columns=sql.SQL(", ").join(map(sql.Identifier, names)),
        extracts=sql.Composed(extracts),
        topic_id=span.topic_id,
        first=span.first,
        until=span.until,
        types=None if rows.types is None else list(rows.types),
        keys=None if rows.keys is None else list(rows.keys),
        from_time=rows.from_time and rows.from_time.isoformat(),
        to_time=rows.to_time and rows.to_time.isoformat(),
        condition=sql.SQL("true" if where is None else _CONDITION.replace("{}", to_postgres(parse(where)))),
    )
