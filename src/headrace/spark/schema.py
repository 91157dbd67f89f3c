"""Columns of events on Spark: what the source returns, and what match, correlate and the sink accept.

Names follow Kafka's source where it has the column. `offset` is the position; `timestamp` is the event's own time (emitted_at);
`appended_at` is the log's time, which never goes back within a topic. `payload` and `headers` are JSON text, exactly as stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

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


EVENT_COLUMNS = (
    Column("key", "string", nullable=True),
    Column("type", "string"),
    Column("payload", "string"),
    Column("topic", "string"),
    Column("partition", "integer"),
    Column("offset", "long"),
    Column("timestamp", "timestamp"),
    Column("event_id", "string"),
    Column("headers", "string"),
    Column("shard", "string"),
    Column("appended_at", "timestamp"),
    Column("producer", "string", nullable=True, usual=False),
)
_BY_NAME = {column.name: column for column in EVENT_COLUMNS}
COLUMN_OF = {"object": "payload", "emitted_at": "timestamp"}
"""The columns of frames by the roots of conditions, where the names differ: `timestamp` is named as in Kafka's source."""


def event_schema(columns: Sequence[str] = (), *, extracted: Sequence[str] = ()) -> StructType:
    """Spark's schema of events: the named columns (by default the usual ones), then the extracted ones, which are strings."""
    from pyspark.sql.types import StructType

    schema = StructType()
    for name in columns or [column.name for column in EVENT_COLUMNS if column.usual]:
        if name not in _BY_NAME:
            raise Invalid(f"events have no column {name!r}; they have {', '.join(_BY_NAME)}")
        schema.add(name, _BY_NAME[name].type, nullable=_BY_NAME[name].nullable)
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
