"""A range of an archived file with the source's columns and filters: the same rows as the log had."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import pyarrow as pa

from headrace.archive import FileRange, read_archive_file
from headrace.lang.condition import Condition, Sample, decode_json, parse, to_python
from headrace.spark.source.offsets import Range
from headrace.spark.source.options import Extract, SourceOptions
from headrace.spark.source.typed_payloads import typed_array

_NO_TIME = datetime(1970, 1, 1, tzinfo=UTC)
_ARCHIVE_NAMES = {"offset": "position", "timestamp": "emitted_at"}


def read_archived(options: SourceOptions, schema: pa.Schema, range_: Range) -> Iterator[pa.RecordBatch]:
    """The rows of a range in one file, with Spark's schema."""
    assert range_.file is not None
    extracts = [extract for extract in options.extracts if extract.name in schema.names]
    names = {name: _ARCHIVE_NAMES.get(name, name) for name in schema.names if name not in range_.constants}
    for extract in extracts:
        names[extract.name] = "payload"
    condition = None if options.where is None else parse(options.where)
    read_columns = [*names.values(), *(_column_of(field.root) for field in (condition.fields if condition else ()))]
    # A read of constant columns alone still counts rows.
    columns = list(dict.fromkeys(read_columns)) or ["position"]
    for batch in read_archive_file(FileRange(range_.file, range_.first, range_.until), columns, options.rows):
        if condition is not None:
            batch = _filter(batch, condition)
        arrays = {name: batch.column(column) for name, column in names.items()}
        for extract in extracts:
            arrays[extract.name] = pa.array(extract_values(batch.column("payload").to_pylist(), extract), pa.string())
        yield to_spark_batch(arrays, batch.num_rows, schema, range_)


def _column_of(root: str) -> str:
    return "payload" if root == "object" else root


def _filter(batch: pa.RecordBatch, condition: Condition) -> pa.RecordBatch:
    """The rows for which the condition is true, by the Python printer, which agrees with PostgreSQL's."""
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


def to_spark_batch(columns: dict[str, pa.Array], rows: int, schema: pa.Schema, range_: Range) -> pa.RecordBatch:
    """A batch with exactly Spark's schema: JSON becomes text, and the constant columns are added."""
    arrays = []
    for field in schema:
        if field.name in range_.constants:
            arrays.append(pa.repeat(pa.scalar(range_.constants[field.name], field.type), rows))
        else:
            column = columns[field.name]
            array = column.storage if isinstance(column, pa.ExtensionArray) else column
            has_own_type = field.name == "payload" and not pa.types.is_string(field.type)
            arrays.append(typed_array(array.to_pylist(), field.type) if has_own_type else array)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


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
