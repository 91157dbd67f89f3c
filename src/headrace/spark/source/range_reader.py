"""Reads a range of positions with the source's columns, for a task of Spark or for the driver itself.

Promises: the same rows whoever reads them. The driver reads a short range itself, which saves a task in a Python worker; tasks
read a long one, in as many splits as the cluster has cores."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from threading import get_ident
from typing import TYPE_CHECKING

from headrace.core import NotFound
from headrace.db import connect_arrow, map_connection_errors, map_database_errors
from headrace.log.archive import FileRange
from headrace.log.arrow import LockedRange, Selection, lock_range, read_file_range, read_log_range
from headrace.spark.credentials import Access
from headrace.spark.source.offsets import Range, Split, data_loss, split_ranges
from headrace.spark.source.options import SourceOptions
from headrace.spark.source.payload_types import typed_array

if TYPE_CHECKING:
    import pyarrow as pa
    from adbc_driver_manager.dbapi import Connection
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

BATCH_ROWS_MIN = 8192
LOG_NAMES = {"offset": "position", "timestamp": "emitted_at"}
"""The log's names of columns that Kafka's source names otherwise."""
EXTRACTED = "payload."
"""What the names of extracted columns begin with until Spark gets them."""
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

    arrow_schema = to_arrow_schema(schema, timezone="UTC")
    selection = _selection(options, schema, range_)
    for batch in _read(options, selection, range_):
        yield _to_spark_batch(batch, arrow_schema, range_)


def _read(options: SourceOptions, selection: Selection, range_: Range) -> Iterator[pa.RecordBatch]:
    if range_.file is not None:
        try:
            yield from read_file_range(FileRange(range_.file, range_.first, range_.until), selection)
            return
        except NotFound:
            # Small files are put together from time to time: the catalog knows where the events are now.
            parts = _find_files_again(options, range_)
        for part in parts:
            yield from read_file_range(part, selection)
        return
    with map_database_errors(), _locked(options, range_) as (conn, locked):
        for part in locked.archived:
            yield from read_file_range(part, selection)
        yield from read_log_range(conn, locked.logged, selection)


def _selection(options: SourceOptions, schema: StructType, range_: Range) -> Selection:
    wanted = [extract for extract in options.extracts if extract.name in schema.fieldNames()]
    # An extracted column may have a name that only the log uses, such as position.
    extracts = tuple(replace(extract, name=f"{EXTRACTED}{extract.name}") for extract in wanted)
    other = {*range_.constants, *(extract.name for extract in wanted)}
    columns = tuple(LOG_NAMES.get(name, name) for name in schema.fieldNames() if name not in other)
    return Selection(columns, extracts, options.rows, options.where)


def _to_spark_batch(batch: pa.RecordBatch, schema: pa.Schema, range_: Range) -> pa.RecordBatch:
    """A batch with exactly Spark's schema: the constant columns are added."""
    import pyarrow as pa

    arrays = []
    for field in schema:
        if field.name in range_.constants:
            arrays.append(pa.repeat(pa.scalar(range_.constants[field.name], field.type), batch.num_rows))
        else:
            extracted = f"{EXTRACTED}{field.name}"
            array = batch.column(extracted if extracted in batch.schema.names else LOG_NAMES.get(field.name, field.name))
            has_own_type = field.name == "payload" and not pa.types.is_string(field.type)
            arrays.append(typed_array(array.to_pylist(), field.type) if has_own_type else array)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _find_files_again(options: SourceOptions, range_: Range) -> tuple[FileRange, ...]:
    logged = replace(range_, file=None)
    with map_database_errors(), _locked(options, logged) as (_, locked):
        return locked.archived


@contextmanager
def _locked(options: SourceOptions, range_: Range) -> Iterator[tuple[Connection, LockedRange]]:
    """A connection that keeps the range from being dropped, and where its positions are.

    After a complete read the connection is kept for the next split; one in the middle of a COPY is closed."""
    key = (os.getpid(), get_ident(), options.access, range_.shard)
    with map_connection_errors(range_.shard):
        conn, locked = _lock(key, options, range_)
        try:
            yield conn, locked
            conn.rollback()
        except BaseException:
            _open.pop(key, None)
            conn.close()
            raise


def _lock(key: _Key, options: SourceOptions, range_: Range) -> tuple[Connection, LockedRange]:
    is_old = key in _open
    conn = _connection(key)
    try:
        locked = lock_range(conn, range_, use_archive=options.use_archive, folder=options.archive_folder)
    except _driver_error():
        del _open[key]
        if not is_old:
            raise
        # The server may have restarted since the connection was opened.
        return _lock(key, options, range_)
    if locked.missing and options.fail_on_data_loss:
        conn.rollback()
        raise data_loss(range_.shard, range_.topic, range_.first, locked.logged.first)
    return conn, locked


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


SHORT_MAX = 20_000
"""Positions that the driver reads itself."""


def split_for_cores(session: SparkSession, range_: Range) -> list[Split]:
    """The parts of a range, one per core of the cluster."""
    # Through Spark Connect there is no context to ask for the number of cores.
    context = getattr(session, "_sc", None)
    return split_ranges([range_], partitions_min=context.defaultParallelism if context is not None else 2)


def map_numbers(
    session: SparkSession, count: int, read: Callable[[int], Iterator[pa.RecordBatch]], schema: StructType | str
) -> DataFrame:
    """The rows that tasks read by themselves: one task per number below `count`."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from read(number)

    return session.range(0, count, 1, count).mapInArrow(run, schema)
