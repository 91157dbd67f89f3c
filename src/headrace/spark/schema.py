"""Columns of events on Spark: what the source returns, and what match, correlate and the sink accept.

Names follow Kafka's source where it has the column. `offset` is the position; `timestamp` is the event's own time (emitted_at);
`appended_at` is the log's time, which never goes back within a topic. `payload` and `headers` are JSON text, exactly as stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace import core
from headrace.core import Invalid

if TYPE_CHECKING:
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


def check_schema(schema: StructType, *, extracted: Sequence[str], has_typed_payload: bool = False) -> None:
    """Rejects a schema with an unknown column, or with a column of another type; a typed payload has a type of its own."""
    types = {column.name: column.type for column in EVENT_COLUMNS} | dict.fromkeys(extracted, "string")
    for field in schema.fields:
        type_ = {"bigint": "long", "int": "integer"}.get(field.dataType.simpleString(), field.dataType.simpleString())
        if field.name not in types:
            raise Invalid(f"the source has no column {field.name!r}; it has {', '.join(types)}")
        if type_ != types[field.name] and not (has_typed_payload and field.name == "payload"):
            raise Invalid(f"column {field.name!r} is {types[field.name]}, not {type_}; cast it after loading")
