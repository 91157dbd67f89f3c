"""Options of the sink, and which column of a frame becomes what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.core import Invalid
from headrace.spark.credentials import Access
from headrace.spark.schema import EVENT_COLUMNS

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

KNOWN = frozenset(
    {"topic", "type", "action", "as", "namespace", "producer", "writeid", "service", "servicefile", "dsnenv", "secret", "path"}
    | {"checkpointlocation", "queryname"}
)
EVENT = {"topic": "string", "type": "string", "producer": "string", "headers": "string"}
ACTION = {"action": "string", "priority": "int"}
BOTH = {"key": "string", "payload": "string", "event_id": "string", "timestamp": "timestamp"}
PASSED_OVER = frozenset(column.name for column in EVENT_COLUMNS)
"""Columns of the source that say where an event was; a frame read there may be written as it is."""


@dataclass(frozen=True)
class SinkOptions:
    """What becomes of a frame's rows. `name` is an event's type or an action's name for every row; None: a column has it."""

    access: Access
    actions: bool
    topic: str | None
    name: str | None
    namespace: str | None
    producer: str | None
    write_id: str | None

    @classmethod
    def of(cls, options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> SinkOptions:
        given = {name.lower(): value for name, value in options.items()}
        access = Access.of(given)
        unknown = sorted(set(given) - KNOWN)
        if unknown:
            raise Invalid(f"the sink has no option {', '.join(unknown)}; docs/spark.md lists those it has")
        if overwrite:
            raise Invalid("a log is only ever appended to; write with mode append (a stream: output mode append or update)")
        kind = given.get("as", "events")
        if kind not in ("events", "actions"):
            raise Invalid(f"option as is events or actions, not {kind!r}")
        actions = kind == "actions"
        _check_columns(schema, given, actions=actions)
        return cls(
            access,
            actions,
            None if actions else given.get("topic") or given.get("path"),
            given.get("action" if actions else "type"),
            given.get("namespace"),
            given.get("producer"),
            given.get("writeid"),
        )


def _check_columns(schema: StructType, given: Mapping[str, str], *, actions: bool) -> None:
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    taken = BOTH | (ACTION if actions else EVENT)
    unknown = sorted(types.keys() - taken.keys() - PASSED_OVER)
    if unknown:
        raise Invalid(
            f"the sink does not know column {', '.join(unknown)}; it takes {', '.join(taken)}. "
            "Put other values into the payload: to_json(struct(…)) as payload"
        )
    for name in taken.keys() & types.keys():
        if types[name] != taken[name]:
            raise Invalid(f"column {name!r} is {types[name]}; the sink takes {taken[name]} (to_json makes a string of a struct)")
    name = "action" if actions else "type"
    missing = [needed for needed in (["payload", name] if actions else ["payload", name, "topic"]) if needed not in types]
    missing = [needed for needed in missing if needed not in given and not (needed == "topic" and "path" in given)]
    if missing:
        raise Invalid(f"the frame has no column {', '.join(missing)}, and no option says it for all rows")
