"""Reads a range of positions as Arrow batches, straight from PostgreSQL's binary COPY."""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from threading import get_ident
from typing import TYPE_CHECKING

from psycopg import sql

from headrace.archive import FileRange, literal_query
from headrace.core import NotFound
from headrace.db import connect_arrow, map_connection_errors, map_database_errors
from headrace.lang.condition import parse, to_postgres
from headrace.spark.credentials import Access
from headrace.spark.source.offsets import Range, Split, data_loss
from headrace.spark.source.options import SourceOptions

if TYPE_CHECKING:
    import pyarrow as pa
    from adbc_driver_manager.dbapi import Connection
    from pyspark.sql.types import StructType

BATCH_ROWS_MIN = 8192
# In a scope of its own, where the names of the condition language are the only ones.
_CONDITION = "(select {} from (select l.payload as object, l.type, l.key, l.headers, l.emitted_at) c)"
_Key = tuple[int, int, Access, str]
"""Process, thread, access and shard: forked processes, and the threads of a driver, do not share a connection."""
_open: dict[_Key, Connection] = {}


def read_split(options: SourceOptions, schema: StructType, split: Split) -> Iterator[pa.RecordBatch]:
    """The rows of a task. Those of small files come together, in batches that are worth sending."""
    import pyarrow as pa

    pending: list[pa.RecordBatch] = []
    count = 0
    for range_ in split.ranges:
        for batch in read_batches(options, schema, range_):
            pending.append(batch)
            count += batch.num_rows
            if count >= BATCH_ROWS_MIN or range_.file is None:
                yield pa.concat_batches(pending) if len(pending) > 1 else batch
                pending, count = [], 0
    if pending:
        yield pa.concat_batches(pending)


def read_batches(options: SourceOptions, schema: StructType, range_: Range) -> Iterator[pa.RecordBatch]:
    """The rows of a range. Raises PositionOutOfRange if retention has dropped some of it since it was planned."""
    from pyspark.sql.pandas.types import to_arrow_schema

    from headrace.spark.source.archived import read_archived, to_spark_batch

    arrow_schema = to_arrow_schema(schema, timezone="UTC")
    if range_.file is not None:
        try:
            yield from read_archived(options, arrow_schema, range_)
            return
        except NotFound:
            # Small files are put together from time to time: the catalog knows where the events are now.
            parts = _find_files_again(options, range_)
        for part in parts:
            yield from read_archived(options, arrow_schema, part)
        return
    with map_database_errors(), _locked(options, range_) as (conn, archived), conn.cursor() as cursor:
        for part in archived:
            yield from read_archived(options, arrow_schema, part)
        cursor.execute(read_statement(options, schema.fieldNames(), range_))
        for batch in cursor.fetch_record_batch():
            columns = dict(zip(batch.schema.names, batch.columns, strict=True))
            yield to_spark_batch(columns, batch.num_rows, arrow_schema, range_)


def _find_files_again(options: SourceOptions, range_: Range) -> list[Range]:
    logged = replace(range_, file=None)
    with map_database_errors(), _locked(options, logged) as (_, archived):
        return archived


def read_statement(options: SourceOptions, columns: Sequence[str], range_: Range) -> str:
    """The statement of one split."""
    extracts = [
        sql.SQL(", l.payload {} {}::text[] as {}").format(
            sql.SQL("#>" if extract.as_json else "#>>"), sql.Literal(list(extract.path)), sql.Identifier(extract.name)
        )
        for extract in options.extracts
        if extract.name in columns
    ]
    names = [sql.Identifier(name) for name in columns if name not in range_.constants]
    rows = options.rows
    return literal_query(
        "spark/read",
        # A read of constant columns alone still counts rows.
        columns=sql.SQL(", ").join(names or [sql.Identifier("offset")]),
        extracts=sql.Composed(extracts),
        topic_id=range_.topic_id,
        first=range_.first,
        until=range_.until,
        types=None if rows.types is None else list(rows.types),
        keys=None if rows.keys is None else list(rows.keys),
        from_time=rows.from_time and rows.from_time.isoformat(),
        to_time=rows.to_time and rows.to_time.isoformat(),
        condition=sql.SQL("true" if options.where is None else _CONDITION.replace("{}", to_postgres(parse(options.where)))),
    )


@contextmanager
def _locked(options: SourceOptions, range_: Range) -> Iterator[tuple[Connection, list[Range]]]:
    """A connection that keeps the range from being dropped, and the archived parts of what is dropped already.

    After a complete read the connection is kept for the next split; one in the middle of a COPY is closed."""
    key = (os.getpid(), get_ident(), options.access, range_.shard)
    with map_connection_errors(range_.shard):
        conn, archived = _lock(key, options, range_)
        try:
            yield conn, archived
            conn.rollback()
        except BaseException:
            _open.pop(key, None)
            conn.close()
            raise


def _lock(key: _Key, options: SourceOptions, range_: Range) -> tuple[Connection, list[Range]]:
    is_old = key in _open
    conn = _connection(key)
    try:
        with conn.cursor() as cursor:
            # The splits are the parallelism; the server's workers would only compete with them for processors. Until the end of
            # the transaction: behind a pooler the connection is shared.
            cursor.adbc_statement.set_sql_query("set local max_parallel_workers_per_gather = 0; set local jit = off")
            cursor.adbc_statement.execute_update()
            # Lock before looking: retention that comes later waits for us, retention that came earlier is visible.
            cursor.execute(literal_query("spark/lock_log", topic_id=range_.topic_id))
            cursor.fetchall()
            cursor.execute(literal_query("spark/dropped_to", topic_id=range_.topic_id))
            row = cursor.fetchone()
            logged = range_.until if row is None else min(int(row[0]) + 1, range_.until)
            dropped = replace(range_, until=logged if options.use_archive else range_.first)
            span = {"topic_id": range_.topic_id, "first": range_.first, "until": dropped.until}
            cursor.execute(literal_query("archive/files", **span))
            archived = range_.in_files(FileRange.of(row, dropped, options.archive_folder) for row in cursor.fetchall())
    except _driver_error():
        del _open[key]
        if not is_old:
            raise
        # The server may have restarted since the connection was opened.
        return _lock(key, options, range_)
    if sum(map(len, archived)) < logged - range_.first and options.fail_on_data_loss:
        conn.rollback()
        raise data_loss(range_.shard, range_.topic, range_.first, logged)
    return conn, archived


def _connection(key: _Key) -> Connection:
    """A process reads one split after the other, so it keeps its connection."""
    if key not in _open:
        _, _, access, shard = key
        target = access.target(shard)
        with access.use_service_file():
            _open[key] = connect_arrow(target, application_name="headrace spark")
    return _open[key]


@atexit.register
def _close_all() -> None:
    """Closes the connections that this process opened; those of the process it was forked from are not its own."""
    for key in [key for key in _open if key[0] == os.getpid()]:
        with suppress(_driver_error()):
            _open.pop(key).close()


def _driver_error() -> type[Exception]:
    from adbc_driver_manager import dbapi

    return dbapi.Error
