"""Columns of events on Spark: what the source returns, and what match, correlate and the sink accept.

Names follow Kafka's source where it has the column. `offset` is the position; `timestamp` is the event's own time (emitted_at);
`appended_at` is the log's time, which never goes back within a topic. `payload` and `headers` are JSON text, exactly as stored."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace import core
from headrace.core import Invalid

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


@dataclass(frozen=True)
class Column:
    """A column of an event. `usual`: a read includes it by default."""

    name: str
    type: str
    nullable: bool = False
    usual: bool = True


COLUMN_OF = {"object": "payload", "position": "offset", "emitted_at": "timestamp"}
"""The columns of frames by the names of the log and of conditions, where they differ: these are named as in Kafka's source."""
_TYPES = {"bigint": "long", "integer": "integer", "timestamptz": "timestamp"}
_USUAL = ("key", "type", "payload", "topic", "partition", "offset", "timestamp", "event_id", "headers", "shard", "appended_at")
"""The columns of a read that names none, in their order."""
_COLUMNS = {
    name: Column(name, _TYPES.get(column.type, "string"), column.nullable, usual=name in _USUAL)
    for column in (*core.EVENT_COLUMNS, core.EventColumn("shard", "text"))
    for name in [COLUMN_OF.get(column.name, column.name)]
}
_TEXT = ("string",)
_FRAME_TYPES = dict.fromkeys(("key", "type", "payload", "topic", "event_id", "headers", "shard"), _TEXT) | {
    "offset": ("bigint", "int", "smallint"),
    "timestamp": ("timestamp",),
    "appended_at": ("timestamp",),
}
"""What types the columns of a frame of events may have."""
EVENT_COLUMNS = tuple(_COLUMNS[name] for name in dict.fromkeys((*_USUAL, *_COLUMNS)))


def event_schema(columns: Sequence[str] = (), *, extracted: Sequence[str] = ()) -> StructType:
    """Spark's schema of events: the named columns (by default the usual ones), then the extracted ones, which are strings."""
    from pyspark.sql.types import StructType

    schema = StructType()
    for name in columns or [column.name for column in EVENT_COLUMNS if column.usual]:
        if name not in _COLUMNS:
            raise Invalid(f"events have no column {name!r}; they have {', '.join(column.name for column in EVENT_COLUMNS)}")
        schema.add(name, _COLUMNS[name].type, nullable=_COLUMNS[name].nullable)
    for name in extracted:
        schema.add(name, "string", nullable=True)
    return schema


def columns_for(roots: Iterable[str], *others: str) -> tuple[str, ...]:
    """The columns that conditions over these roots read, and some others, in the order of a read."""
    names = {*(COLUMN_OF.get(root, root) for root in roots), *others}
    return tuple(column.name for column in EVENT_COLUMNS if column.name in names)


def check_schema(schema: StructType, *, extracted: Sequence[str], has_typed_payload: bool = False) -> None:
    """Rejects a schema with an unknown column, or with a column of another type; a typed payload has a type of its own."""
    types = {column.name: column.type for column in EVENT_COLUMNS} | dict.fromkeys(extracted, "string")
    for field in schema.fields:
        type_ = {"bigint": "long", "int": "integer"}.get(field.dataType.simpleString(), field.dataType.simpleString())
        if field.name not in types:
            raise Invalid(f"the source has no column {field.name!r}; it has {', '.join(types)}")
        if type_ != types[field.name] and not (has_typed_payload and field.name == "payload"):
            raise Invalid(f"column {field.name!r} is {types[field.name]}, not {type_}; cast it after loading")


_PLAIN_TEXT = re.compile(r"[ !\"#%&(-\[\]-~]*")


def text_literal(text: str) -> str:
    """A text literal of Spark SQL that no parser setting (escapes, variable substitution) can change."""
    return f"'{text}'" if _PLAIN_TEXT.fullmatch(text) else f"cast(X'{text.encode().hex()}' as string)"


def check_columns(columns: Sequence[str], needed: Iterable[str], roots: Iterable[str]) -> None:
    """Raises Invalid for a frame that lacks a needed column, or one that conditions over these roots read."""
    required = dict.fromkeys([*needed, *sorted(columns_for(roots))])
    if missing := [column for column in required if column not in columns]:
        raise Invalid(f"the frame has no column {', '.join(missing)}, which is needed; it has {', '.join(columns)}")


def check_types(df: DataFrame) -> None:
    """Raises Invalid for a frame whose columns of events have other types than events have."""
    for field in df.schema.fields:
        allowed = _FRAME_TYPES.get(field.name)
        type_ = field.dataType.simpleString()
        if allowed is not None and type_ not in allowed:
            advice = "to_json(payload) makes a text of it" if field.name == "payload" else "cast it"
            raise Invalid(f"column {field.name!r} of the frame is {type_}, not {allowed[0]}; {advice}")
