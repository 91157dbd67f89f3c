"""A range of positions as Arrow batches, straight from PostgreSQL's binary COPY."""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from threading import get_ident
from typing import TYPE_CHECKING, LiteralString

from psycopg import sql

from headrace.archive import FileRange, files_statement
from headrace.db import connect_arrow, map_connection_errors, map_database_errors, query
from headrace.spark.credentials import Access
from headrace.spark.source.archived import CONSTANT, read_archived, shaped
from headrace.spark.source.extract import Extract
from headrace.spark.source.offsets import Span, lost
from headrace.spark.source.options import SourceOptions

if TYPE_CHECKING:
    import pyarrow as pa
    from adbc_driver_manager.dbapi import Connection
    from pyspark.sql.types import StructType

_Place = tuple[int, int, Access, str]
_open: dict[_Place, Connection] = {}


def read_span(options: SourceOptions, schema: StructType, span: Span) -> Iterator[pa.RecordBatch]:
    """The rows of a range. Raises OutOfLog when retention has dropped some of it since it was planned."""
    from pyspark.sql.pandas.types import to_arrow_schema

    wanted = to_arrow_schema(schema, timezone="UTC")
    if span.file is not None:
        yield from read_archived(options, wanted, span)
        return
    with map_database_errors(), _lent(options, span) as (conn, dropped), conn.cursor() as cursor:
        for piece in dropped:
            yield from read_archived(options, wanted, piece)
        cursor.execute(read_statement(options, schema.fieldNames(), span))
        for batch in cursor.fetch_record_batch():
            yield shaped(dict(zip(batch.schema.names, batch.columns, strict=True)), batch.num_rows, wanted, span)


def read_statement(options: SourceOptions, columns: Sequence[str], span: Span) -> str:
    """The statement of one split."""
    filters = options.filters
    names = [sql.Identifier(name) for name in columns if name not in CONSTANT]
    return _statement(
        "spark/read",
        # A read of constant columns alone still counts rows.
        columns=sql.SQL(", ").join(names or [sql.Identifier("offset")]),
        extracts=sql.Composed([_extracted(one) for one in options.extracts if one.name in columns]),
        topic_id=sql.Literal(span.topic_id),
        first=sql.Literal(span.first),
        until=sql.Literal(span.until),
        types=_array(filters.types),
        keys=_array(filters.keys),
        from_time=_time(filters.from_time),
        to_time=_time(filters.to_time),
    )


def _statement(name: str, **parts: sql.Composable) -> str:
    text: LiteralString = query(name)
    return sql.SQL(text).format(**parts).as_string(None)


def _extracted(one: Extract) -> sql.Composed:
    operator = sql.SQL("#>") if one.as_json else sql.SQL("#>>")
    return sql.SQL(", l.payload {} {}::text[] as {}").format(operator, sql.Literal(list(one.path)), sql.Identifier(one.name))


def _array(values: Sequence[str] | None) -> sql.Literal:
    return sql.Literal(None if values is None else list(values))


def _time(moment: datetime | None) -> sql.Literal:
    return sql.Literal(None if moment is None else moment.isoformat())


@contextmanager
def _lent(options: SourceOptions, span: Span) -> Iterator[tuple[Connection, list[Span]]]:
    """A connection that holds the range, kept for the next split when all was read; one left amid a COPY is of no use."""
    with map_connection_errors(span.shard):
        conn, dropped = _held(options, span)
        try:
            yield conn, dropped
            conn.rollback()
        except BaseException:
            _open.pop(_place(options.access, span.shard), None)
            conn.close()
            raise


def _held(options: SourceOptions, span: Span) -> tuple[Connection, list[Span]]:
    """A connection in a transaction that keeps the range from being dropped, and where the archive has what is gone."""
    reused = _place(options.access, span.shard) in _open
    conn = _connection(options.access, span.shard)
    try:
        with conn.cursor() as cursor:
            # Locked first and looked at then: retention that comes after waits for us, one that came before is seen.
            cursor.execute(_statement("spark/hold", topic_id=sql.Literal(span.topic_id)))
            cursor.fetchall()
            cursor.execute(_statement("spark/dropped_to", topic_id=sql.Literal(span.topic_id)))
            row = cursor.fetchone()
            there = span.until if row is None else min(int(row[0]) + 1, span.until)
            cursor.execute(files_statement(span.topic_id, span.first, there if options.archive.used else span.first))
            files = [FileRange.of(found, span.first, there, options.archive.folder) for found in cursor.fetchall()]
    except _driver_error():
        del _open[_place(options.access, span.shard)]
        if not reused:
            raise
        # The connection was an old one; the server may have restarted since.
        return _held(options, span)
    dropped = [replace(span, first=one.first, until=one.until, file=one.path) for one in files]
    if sum(map(len, dropped)) < there - span.first and options.fail_on_data_loss:
        conn.rollback()
        raise lost(span.shard, span.topic, span.first, there)
    return conn, dropped


def _place(access: Access, shard: str) -> _Place:
    """Processes that were forked, and threads of a driver that runs several topics, do not share a connection."""
    return os.getpid(), get_ident(), access, shard


@atexit.register
def _close_all() -> None:
    """A driver that reads by itself leaves in order; the connections of a process that was forked are not its own."""
    for place in [place for place in _open if place[0] == os.getpid()]:
        with suppress(_driver_error()):
            _open.pop(place).close()


def _connection(access: Access, shard: str) -> Connection:
    """A process reads one split after the other: it keeps its connection."""
    place = _place(access, shard)
    if place not in _open:
        target = access.target(shard)
        with access.dialing():
            conn = connect_arrow(target, application_name="headrace spark")
        with conn.cursor() as cursor:
            # The splits are the parallelism; workers of the server would only take its processors from them.
            cursor.adbc_statement.set_sql_query("set max_parallel_workers_per_gather = 0; set jit = off")
            cursor.adbc_statement.execute_update()
        conn.commit()
        _open[place] = conn
    return _open[place]


def _driver_error() -> type[Exception]:
    from adbc_driver_manager import dbapi

    return dbapi.Error
