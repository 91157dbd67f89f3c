"""A range of an archived file with the source's columns and filters: the same rows as the log gave."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec
import pyarrow as pa

from headrace.archive import FileRange, RowFilter, read_file
from headrace.spark.source.extract import Extract
from headrace.spark.source.offsets import Span
from headrace.spark.source.options import SourceOptions

CONSTANT = ("topic", "shard")
"""The same for a whole split, so they do not travel."""
_NAME_OF = {"offset": "position", "timestamp": "emitted_at"}


def read_archived(options: SourceOptions, wanted: pa.Schema, span: Span) -> Iterator[pa.RecordBatch]:
    """The rows of a range of one file, with Spark's schema."""
    assert span.file is not None
    filters = options.filters
    rows = RowFilter(filters.types, filters.keys, filters.from_time, filters.to_time)
    extracts = [one for one in options.extracts if one.name in wanted.names]
    names = [name for name in wanted.names if name not in CONSTANT and name not in {one.name for one in extracts}]
    columns = dict.fromkeys(_NAME_OF.get(name, name) for name in [*names, *(["payload"] if extracts else [])])
    # A read of constant columns alone still counts rows.
    for batch in read_file(FileRange(span.file, span.first, span.until), list(columns) or ["position"], rows):
        found = {name: batch.column(_NAME_OF.get(name, name)) for name in names}
        for one in extracts:
            found[one.name] = pa.array(extracted(batch.column("payload").to_pylist(), one), pa.string())
        yield shaped(found, batch.num_rows, wanted, span)


def shaped(columns: dict[str, pa.Array], count: int, wanted: pa.Schema, span: Span) -> pa.RecordBatch:
    """With exactly Spark's schema: JSON becomes its text, and the columns that did not travel are put in."""
    constant = {"topic": span.topic, "shard": span.shard}
    made = []
    for field in wanted:
        if field.name in constant:
            made.append(pa.repeat(pa.scalar(constant[field.name], field.type), count))
        else:
            column = columns[field.name]
            made.append(column.storage if isinstance(column, pa.ExtensionArray) else column)
    return pa.RecordBatch.from_arrays(made, schema=wanted)


def extracted(payloads: Sequence[str], one: Extract) -> list[str | None]:
    """What PostgreSQL's #> and #>> give. The payloads are as PostgreSQL printed them, so a part of one is printed already."""
    return [_text(_at(msgspec.Raw(payload.encode()), one.path), as_json=one.as_json) for payload in payloads]


def _at(value: msgspec.Raw, path: Sequence[str]) -> msgspec.Raw | None:
    for step in path:
        kind = bytes(value)[:1]
        if kind == b"{":
            found = msgspec.json.decode(value, type=dict[str, msgspec.Raw]).get(step)
        elif kind == b"[" and re.fullmatch(r"\s*[+-]?\d+", step):
            items = msgspec.json.decode(value, type=list[msgspec.Raw])
            found = items[int(step)] if -len(items) <= int(step) < len(items) else None
        else:
            return None
        if found is None:
            return None
        value = found
    return value


def _text(value: msgspec.Raw | None, *, as_json: bool) -> str | None:
    if value is None:
        return None
    printed = bytes(value).strip().decode()
    if as_json:
        return printed
    if printed == "null":
        return None
    return msgspec.json.decode(value, type=str) if printed.startswith('"') else printed
