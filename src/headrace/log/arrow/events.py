"""read: the events of a topic, planned at once and read when they are used."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from headrace.core import Invalid, NotFound, PackageMissing, PositionOutOfRange, UnknownTopic
from headrace.db import (
    Target,
    configured_targets,
    connect,
    connect_arrow,
    map_connection_errors,
    map_database_errors,
    parse_targets,
)
from headrace.lang.condition import parse
from headrace.log.archive import RowFilter, StoredRange, find_stored_range
from headrace.log.arrow.ranges import (
    PLACE_COLUMNS,
    READ_COLUMNS,
    Extract,
    LockedRange,
    Selection,
    lock_range,
    read_file_range,
    read_log_range_in_order,
    table_schema,
)
from headrace.observe.reports import table_html

if TYPE_CHECKING:
    import pandas  # type: ignore[import-untyped]
    import polars
    import pyarrow as pa
    from adbc_driver_manager.dbapi import Connection as ArrowConnection

Bound = int | str | datetime
"""A position, `earliest`, `latest`, or a time of the log."""
HEAD_ROWS = 10


@dataclass(frozen=True)
class LogPart:
    """The range that is read of one shard's log."""

    target: Target
    span: StoredRange


@dataclass(frozen=True)
class Events:
    """The events of a topic between fixed positions. Each use reads them anew, with the same rows; nothing is kept in memory.

    It is a stream of Arrow data to every library that takes one: `polars.DataFrame(events)`, `pyarrow.table(events)`,
    `duckdb.sql("select * from events")`."""

    topic: str
    columns: tuple[str, ...]
    parts: tuple[LogPart, ...]
    selection: Selection
    use_archive: bool = True
    archive_folder: str | None = None

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the events."""
        return table_schema(self.columns, self.selection.extracts)

    @property
    def positions(self) -> dict[str, range]:
        """The positions that are read, by shard."""
        return {part.target.name: range(part.span.first, part.span.until) for part in self.parts}

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The events in record batches, shard by shard, by position. Until the last one is read or the iterator is closed,
        retention of the topic waits."""
        schema = self.schema
        for part in self.parts:
            for batch in self._read_part(part):
                if batch.num_rows:
                    yield self._with_schema(batch, schema, part)

    def to_reader(self) -> pa.RecordBatchReader:
        """A reader of the record batches, for what takes one, such as `pyarrow.dataset.write_dataset`."""
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(self.schema, self.batches())

    def to_arrow(self) -> pa.Table:
        """The events as an Arrow table."""
        import pyarrow as pa

        return pa.Table.from_batches(list(self.batches()), self.schema)

    def to_pandas(self) -> pandas.DataFrame:
        """The events as a pandas frame."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> polars.DataFrame:
        """The events as a polars frame."""
        try:
            import polars
        except ImportError:
            raise PackageMissing("polars is not installed; pip install polars, or use to_arrow() or to_pandas()") from None
        frame = polars.from_arrow(self.to_arrow())
        assert isinstance(frame, polars.DataFrame)
        return frame

    def head(self, rows: int = HEAD_ROWS) -> pa.Table:
        """The first events as an Arrow table."""
        import pyarrow as pa

        batches: list[pa.RecordBatch] = []
        with closing(self.batches()) as reading:  # type: ignore[type-var]
            while (missing := rows - sum(batch.num_rows for batch in batches)) > 0 and (batch := next(reading, None)) is not None:
                batches.append(batch.slice(0, missing))
        return pa.Table.from_batches(batches, self.schema)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Arrow's protocol for streams of data between libraries."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def _repr_html_(self) -> str:
        rows = [tuple(row.values()) for row in self.head(HEAD_ROWS).to_pylist()]
        count = sum(len(part.span) for part in self.parts)
        caption = f"topic {self.topic}: {count:,} positions; the first {len(rows)} events of the selection"
        return table_html(self.schema.names, rows, caption=caption)

    def _with_schema(self, batch: pa.RecordBatch, schema: pa.Schema, part: LogPart) -> pa.RecordBatch:
        import pyarrow as pa

        places = {"topic": self.topic, "shard": part.target.name}
        arrays = [
            pa.repeat(pa.scalar(places[field.name], field.type), batch.num_rows)
            if field.name in places
            else batch.column(field.name).cast(field.type)
            for field in schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _read_part(self, part: LogPart) -> Iterator[pa.RecordBatch]:
        span, missing = part.span, None
        with _connect(part.target) as conn:
            while len(span):
                locked = self._lock(conn, span, part)
                if not locked.archived:
                    yield from read_log_range_in_order(conn, locked.logged, self.selection)
                    break
                # Files need no lock.
                conn.rollback()
                try:
                    for file in locked.archived:
                        yield from read_file_range(file, self.selection)
                        span = replace(span, first=file.until)
                except NotFound:
                    # Small files are put together from time to time: the catalog knows where the events are now.
                    if missing == (missing := locked.archived):
                        raise
            conn.rollback()

    def _lock(self, conn: ArrowConnection, span: StoredRange, part: LogPart) -> LockedRange:
        locked = lock_range(conn, span, use_archive=self.use_archive, folder=self.archive_folder)
        if locked.missing:
            raise PositionOutOfRange(
                f"topic {self.topic!r} on shard {part.target.name!r}: retention has dropped {locked.missing} of the positions "
                f"{span.first} to {locked.logged.first - 1}, and the archive does not have them; call read again, which begins at "
                "the earliest position that is left"
            )
        return locked


def read(
    topic: str,
    *,
    start: Bound = "earliest",
    end: Bound = "latest",
    where: str | None = None,
    types: str | Sequence[str] | None = None,
    keys: str | Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    extract: Mapping[str, str | Sequence[str]] | None = None,
    archive: bool | str | os.PathLike[str] = True,
    dsn: str | Target | Sequence[Target] | None = None,
    namespace: str | None = None,
) -> Events:
    """The events of a topic, from archive and log, without Spark: `read("orders").to_polars()`.

    They are read from `start` to before `end`, each a position, a time of the log, `earliest` or `latest`. PostgreSQL evaluates `where`,
    a condition of the rules' language, `types` and `keys`, and sends only `columns`, and `extract`, texts from the payload by their
    path: `{"city": "customer.city"}`. `archive` is False for the log alone, or the folder where the files are now. Without `dsn`, the
    configured databases are read. Topic, rights, positions and columns are checked at once. Raises UnknownTopic, Forbidden,
    DatabaseUnavailable, PositionOutOfRange, ConditionError, Invalid."""
    targets = _targets(dsn)
    extracts = tuple(Extract.from_path(name, path) for name, path in (extract or {}).items())
    names = tuple(columns) if columns is not None else (*READ_COLUMNS, *(["shard"] if len(targets) > 1 else []))
    _check_packages()
    table_schema(names, extracts)
    if where is not None:
        parse(where)
    selection = Selection(
        tuple(name for name in names if name not in PLACE_COLUMNS),
        extracts,
        RowFilter(_words(types), _words(keys)),
        where,
    )
    folder = None if isinstance(archive, bool) else os.fspath(archive)
    parts = _find_parts(targets, topic, (start, end), bool(archive), folder, namespace)
    return Events(topic, names, parts, selection, bool(archive), folder)


def _check_packages() -> None:
    try:
        import adbc_driver_postgresql  # type: ignore[import-untyped]  # noqa: F401
        import pyarrow  # noqa: F401
    except ImportError:
        raise PackageMissing("reading needs pyarrow and adbc-driver-postgresql; pip install 'headrace[arrow]'") from None


def _targets(dsn: str | Target | Sequence[Target] | None) -> list[Target]:
    if dsn is None:
        return configured_targets()
    if isinstance(dsn, str):
        return parse_targets(dsn)
    targets = [dsn] if isinstance(dsn, Target) else list(dsn)
    if not targets:
        raise Invalid("there is no shard; name at least one database")
    return targets


def _words(values: str | Sequence[str] | None) -> tuple[str, ...] | None:
    return None if values is None else (values,) if isinstance(values, str) else tuple(values)


def _find_parts(
    targets: Sequence[Target],
    topic: str,
    bounds: tuple[Bound, Bound],
    use_archive: bool,
    folder: str | None,
    namespace: str | None,
) -> tuple[LogPart, ...]:
    """The ranges on the shards that have the topic."""
    if len(targets) > 1 and any(isinstance(bound, int) or str(bound).isdecimal() for bound in bounds):
        raise Invalid("each shard has its own positions; give start and end as times, or read one shard at a time")
    start, end = (_bound_text(bound) for bound in bounds)
    parts: list[LogPart] = []
    unknown: UnknownTopic | None = None
    for target in targets:
        try:
            with connect(target) as conn:
                span = find_stored_range(conn, topic, start=start, end=end, folder=folder, namespace=namespace)
        except UnknownTopic as error:
            unknown = error
            continue
        if not use_archive and start == "earliest":
            span = replace(span, first=min(span.log_first, span.until))
        parts.append(LogPart(target, span))
    if unknown is not None and not parts:
        raise unknown
    return tuple(parts)


def _bound_text(bound: Bound) -> str:
    if isinstance(bound, datetime):
        if bound.tzinfo is None:
            raise Invalid(f"the time {bound.isoformat()} has no time zone; add one, for example tzinfo=datetime.UTC")
        return bound.isoformat()
    return str(bound)


@contextmanager
def _connect(target: Target) -> Iterator[ArrowConnection]:
    with (
        map_database_errors(),
        map_connection_errors(target),
        closing(connect_arrow(target, application_name="headrace read")) as conn,
    ):
        yield conn
