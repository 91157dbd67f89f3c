"""Reads a range of positions as Arrow batches, from the log by PostgreSQL's binary COPY or from a file of the archive, with the same rows.

A selection says which columns and rows, in the log's own words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec
from psycopg import sql

from headrace.core import STORED_COLUMNS, Invalid
from headrace.lang.condition import Condition, Sample, decode_json, parse, to_postgres, to_python
from headrace.log.archive import FileRange, RowFilter, StoredRange, file_schema, literal_query, plain_column, read_archive_file

if TYPE_CHECKING:
    import pyarrow as pa
    from adbc_driver_manager.dbapi import Connection as ArrowConnection

READ_COLUMNS = tuple(column.name for column in STORED_COLUMNS)
"""The columns of an event in log and archive, in the order of a read without `columns`."""
PLACE_COLUMNS = ("topic", "shard")
"""Columns with one value for a log: nothing reads them."""
ALL_ROWS = RowFilter()


@dataclass(frozen=True)
class Extract:
    """A column from the payload: the text that `#>>` gives, or with `as_json` the value's JSON text, so that "5" and 5 differ."""

    name: str
    path: tuple[str, ...]
    as_json: bool = False

    @classmethod
    def from_path(cls, name: str, path: str | Sequence[str], *, as_json: bool = False) -> Extract:
        """From a path such as `customer.city` or `["customer", "city"]`. Raises Invalid for an empty one."""
        steps = tuple(path.removeprefix("$.").split(".")) if isinstance(path, str) else tuple(path)
        if not steps or not all(steps):
            raise Invalid(f"extract has no path for {name!r}")
        return cls(name, steps, as_json)


@dataclass(frozen=True)
class Selection:
    """The columns to read, of READ_COLUMNS, and the rows: those that pass the filter and for which the condition is true."""

    columns: tuple[str, ...]
    extracts: tuple[Extract, ...] = ()
    rows: RowFilter = ALL_ROWS
    where: str | None = None
    """A condition of the rules' language."""

    @property
    def read_columns(self) -> tuple[str, ...]:
        """The same, but at least one: a read of no column still counts rows."""
        return self.columns if self.columns or self.extracts else ("position",)


def table_schema(columns: Sequence[str], extracts: Sequence[Extract] = ()) -> pa.Schema:
    """The Arrow schema of a read: the types of the archive's files; extracted columns are text. Raises Invalid for other columns."""
    import pyarrow as pa

    known = {field.name: field for field in file_schema()} | {
        name: pa.field(name, pa.string(), nullable=False) for name in PLACE_COLUMNS
    }
    if unknown := [name for name in columns if name not in known]:
        raise Invalid(f"events have no column {', '.join(unknown)}; they have {', '.join((*READ_COLUMNS, *PLACE_COLUMNS))}")
    if clashes := [extract.name for extract in extracts if extract.name in known]:
        raise Invalid(f"extract names {', '.join(clashes)}, which events have already; choose another name")
    names = [*columns, *(extract.name for extract in extracts)]
    if len(set(names)) < len(names):
        raise Invalid(f"a column is named twice: {', '.join(names)}")
    return pa.schema([*(known[name] for name in columns), *(pa.field(extract.name, pa.string()) for extract in extracts)])


# The query has a scope of its own, where the names of the condition language are the only ones.
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


_NO_TIME = datetime(1970, 1, 1, tzinfo=UTC)


def read_file_range(file: FileRange, selection: Selection) -> Iterator[pa.RecordBatch]:
    """The selected rows of a range in one file, in order, with the selection's columns. Raises NotFound if the file is missing."""
    import pyarrow as pa

    condition = None if selection.where is None else parse(selection.where)
    needed = [
        *selection.read_columns,
        *(["payload"] if selection.extracts else []),
        *(_column_of(field.root) for field in (condition.fields if condition else ())),
    ]
    names = [*selection.read_columns, *(extract.name for extract in selection.extracts)]
    for batch in read_archive_file(file, list(dict.fromkeys(needed)), selection.rows):
        if condition is not None:
            batch = _filter(batch, condition)
        arrays = [batch.column(name) for name in selection.read_columns]
        if selection.extracts:
            payloads = batch.column("payload").to_pylist()
            arrays += [pa.array(extract_values(payloads, extract), pa.string()) for extract in selection.extracts]
        yield pa.RecordBatch.from_arrays(arrays, names=names)


def _column_of(root: str) -> str:
    return "payload" if root == "object" else root


def _filter(batch: pa.RecordBatch, condition: Condition) -> pa.RecordBatch:
    """The rows for which the condition is true, by the Python printer, which agrees with PostgreSQL's."""
    import pyarrow as pa

    evaluate = to_python(condition)
    columns = {name: batch.column(name).to_pylist() for name in batch.schema.names}
    absent = [None] * batch.num_rows
    subjects = zip(
        *(columns.get(name, absent) for name in ("payload", "type", "key", "headers", "emitted_at")),
        strict=True,
    )
    mask = [
        evaluate(Sample(_decode(payload), type_ or "", key, _decode(headers) or {}, emitted_at or _NO_TIME)) is True
        for payload, type_, key, headers, emitted_at in subjects
    ]
    return batch.filter(pa.array(mask, pa.bool_()))


def _decode(text: str | None) -> Any:
    return None if text is None else decode_json(text)


def extract_values(payloads: Sequence[str], extract: Extract) -> list[str | None]:
    """What PostgreSQL's #> and #>> give. PostgreSQL printed the payloads, so a part of one is printed as it would be alone."""
    values = (_value_at(msgspec.Raw(payload.encode()), extract.path) for payload in payloads)
    return [_to_text(value, as_json=extract.as_json) for value in values]


def _value_at(value: msgspec.Raw, path: Sequence[str]) -> msgspec.Raw | None:
    for step in path:
        kind = bytes(value)[:1]
        child = None
        if kind == b"{":
            child = msgspec.json.decode(value, type=dict[str, msgspec.Raw]).get(step)
        elif kind == b"[" and re.fullmatch(r"\s*[+-]?\d+", step):
            items = msgspec.json.decode(value, type=list[msgspec.Raw])
            child = items[int(step)] if -len(items) <= int(step) < len(items) else None
        if child is None:
            return None
        value = child
    return value


def _to_text(value: msgspec.Raw | None, *, as_json: bool) -> str | None:
    if value is None:
        return None
    text = bytes(value).strip().decode()
    if as_json:
        return text
    if text == "null":
        return None
    return msgspec.json.decode(value, type=str) if text.startswith('"') else text
