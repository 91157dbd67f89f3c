"""Reads a range of positions from a file of the archive: the same rows as the log had."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.lang.condition import Condition, Sample, decode_json, parse, to_python
from headrace.log.archive import FileRange, read_archive_file
from headrace.log.arrow.selection import Extract, Selection

if TYPE_CHECKING:
    import pyarrow as pa

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
