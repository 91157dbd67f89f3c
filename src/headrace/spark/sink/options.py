"""Options of the sink, and what the columns of a frame become."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.core import Invalid
from headrace.spark.credentials import OPTIONS, Access
from headrace.spark.schema import EVENT_COLUMNS

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

KNOWN = OPTIONS | {"topic", "type", "action", "as", "namespace", "producer", "writeid", "path", "checkpointlocation", "queryname"}
"""Names in lower case; the last three are Spark's own."""
COLUMNS = {"key": "string", "payload": "string", "event_id": "string", "timestamp": "timestamp"}
EVENT = COLUMNS | {"topic": "string", "type": "string", "producer": "string", "headers": "string"}
ACTION = COLUMNS | {"action": "string", "priority": "int"}
IGNORED = frozenset(column.name for column in EVENT_COLUMNS)
"""The source's other columns: a frame from there can be written as it is."""


@dataclass(frozen=True)
class SinkOptions:
    """What the rows of a frame become. `name` is the event type or action of every row; None: a column has it."""

    access: Access
    actions: bool
    topic: str | None
    name: str | None
    namespace: str | None
    producer: str | None
    write_id: str | None

    @classmethod
    def of(cls, options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> SinkOptions:
        options = {name.lower(): value for name, value in options.items()}
        access = Access.of(options)
        if unknown := sorted(set(options) - KNOWN):
            raise Invalid(f"the sink has no option {', '.join(unknown)}; docs/spark.md lists the options")
        if overwrite:
            raise Invalid("a log is only ever appended to; write with mode append (a stream: output mode append or update)")
        kind = options.get("as", "events")
        if kind not in ("events", "actions"):
            raise Invalid(f"option as is events or actions, not {kind!r}")
        actions = kind == "actions"
        topic = None if actions else options.get("topic") or options.get("path")
        name = options.get("action" if actions else "type")
        _check_columns(schema, actions=actions, has_name=name is not None, has_topic=topic is not None)
        return cls(access, actions, topic, name, options.get("namespace"), options.get("producer"), options.get("writeid"))


def _check_columns(schema: StructType, *, actions: bool, has_name: bool, has_topic: bool) -> None:
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    known = ACTION if actions else EVENT
    if unknown := sorted(types.keys() - known.keys() - IGNORED):
        raise Invalid(
            f"the sink does not know column {', '.join(unknown)}; it takes {', '.join(known)}. "
            "Put other values into the payload: to_json(struct(…)) as payload"
        )
    for name in known.keys() & types.keys():
        if types[name] != known[name]:
            raise Invalid(f"column {name!r} is {types[name]}; the sink takes {known[name]} (to_json makes a string of a struct)")
    needed = {"payload": True, "action" if actions else "type": not has_name, "topic": not actions and not has_topic}
    if missing := [name for name, is_needed in needed.items() if is_needed and name not in types]:
        raise Invalid(f"the frame has no column {', '.join(missing)}, and no option gives it for all rows")
