"""The registry: schemas of event types in the database, with versions, compatibility and validation; and a namespace as an AsyncAPI document.

In that document topics are channels, event types are messages, and their schemas are the payloads."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Final

from headrace.core import IncompatibleSchema, Invalid, InvalidSchema, NotFound, UnknownSchema
from headrace.db import Connection, fetch_rows, fetch_value, map_database_errors, query
from headrace.definitions.schemas.comparison import COMPATIBILITIES, Break, Compatibility, check_compatibility
from headrace.definitions.schemas.database_check import database_check
from headrace.definitions.schemas.definitions import DefinitionFinding, findings_on_definitions, types_by_topic
from headrace.definitions.schemas.inference import infer_schema
from headrace.definitions.schemas.parsing import parse_schema, read_schema
from headrace.definitions.schemas.validation import VALIDATIONS, PayloadChecker, Validation, load_validator, schemas_are_exact
from headrace.definitions.schemas.value_set import JsonValue, ValueSet, read_json

SCANNED_MAX = 100_000
"""Positions of a log that are read, from its end, to find events of a type."""


@dataclass(frozen=True)
class EventSchema:
    """The current schema of an event type. `text` is its JSON; `check_is_complete` says if the database checks all of its rules."""

    event_type: str
    version: int
    text: str
    compatibility: Compatibility
    validation: Validation
    check_is_complete: bool | None
    written_at: datetime
    written_by: str

    @property
    def values(self) -> ValueSet:
        return parse_schema(self.text)


@dataclass(frozen=True)
class SchemaVersion:
    """A version of a schema; `forced` if it was set although it broke the compatibility, or nobody could tell."""

    event_type: str
    version: int
    text: str
    compatibility: Compatibility
    forced: bool
    written_at: datetime
    written_by: str


@dataclass(frozen=True)
class SchemaCheck:
    """What a new schema would break: readers or publishers (`breaks`), and rules, correlators and relays (`findings`)."""

    event_type: str
    against_version: int
    """The current version; 0 if there is none."""
    compatibility: Compatibility
    breaks: tuple[Break, ...]
    findings: tuple[DefinitionFinding, ...]
    check_is_complete: bool


@dataclass(frozen=True)
class SchemaChange:
    """A schema that was set: its version, and the check before."""

    version: int
    check: SchemaCheck


def list_schemas(conn: Connection, *, namespace: str | None = None) -> list[EventSchema]:
    """The current schemas of a namespace, by event type."""
    return fetch_rows(conn, EventSchema, query("definitions/schemas/schemas"), {"event_type": None, "namespace": namespace})


def get_schema(conn: Connection, event_type: str, *, namespace: str | None = None) -> EventSchema:
    """The current schema of an event type. Raises UnknownSchema."""
    schema = find_schema(conn, event_type, namespace=namespace)
    if schema is None:
        raise UnknownSchema(f"event type {event_type!r} has no schema; set one: headrace event-type set {event_type} FILE")
    return schema


def find_schema(conn: Connection, event_type: str, *, namespace: str | None = None) -> EventSchema | None:
    """The current schema of an event type; None if it has none."""
    parameters = {"event_type": event_type, "namespace": namespace}
    return next(iter(fetch_rows(conn, EventSchema, query("definitions/schemas/schemas"), parameters)), None)


def list_schema_versions(conn: Connection, event_type: str, *, namespace: str | None = None) -> list[SchemaVersion]:
    """All versions of an event type's schema, oldest first. Raises UnknownSchema."""
    parameters = {"event_type": event_type, "namespace": namespace}
    versions = fetch_rows(conn, SchemaVersion, query("definitions/schemas/versions"), parameters)
    if not versions:
        raise UnknownSchema(f"event type {event_type!r} has no schema; see: headrace event-type list")
    return versions


def check_schema(
    conn: Connection,
    event_type: str,
    schema: str | Mapping[str, object],
    *,
    compatibility: Compatibility | None = None,
    namespace: str | None = None,
) -> SchemaCheck:
    """What setting this schema would break. Changes nothing. Raises InvalidSchema."""
    values = parse_valid_schema(schema)
    current = find_schema(conn, event_type, namespace=namespace)
    wanted = compatibility or (current.compatibility if current else "backward")
    if wanted not in COMPATIBILITIES:
        raise Invalid(f"compatibility {wanted!r} does not exist; choose {', '.join(COMPATIBILITIES)}")
    return SchemaCheck(
        event_type=event_type,
        against_version=current.version if current else 0,
        compatibility=wanted,
        breaks=check_compatibility(current.values, values, wanted) if current else (),
        findings=findings_on_definitions(conn, event_type, values, namespace=namespace),
        check_is_complete=database_check(values).is_complete,
    )


def set_schema(
    conn: Connection,
    event_type: str,
    schema: str | Mapping[str, object],
    *,
    compatibility: Compatibility | None = None,
    validation: Validation | None = None,
    force: bool = False,
    namespace: str | None = None,
) -> SchemaChange:
    """Gives an event type a schema. None keeps a setting; at first they are `backward` and `off`.

    Raises InvalidSchema; IncompatibleSchema, with an example, unless `force` is set; SchemaChanged if another version came between the
    check and the change."""
    if validation is not None and validation not in VALIDATIONS:
        raise Invalid(f"validation {validation!r} does not exist; choose {', '.join(VALIDATIONS)}")
    check = check_schema(conn, event_type, schema, compatibility=compatibility, namespace=namespace)
    if check.breaks and not force:
        lines = "\n".join(f"  {entry}" for entry in check.breaks)
        raise IncompatibleSchema(
            f"the schema of {event_type} is not {check.compatibility} compatible with version {check.against_version}:\n{lines}\n"
            "change the schema, or set it with force"
        )
    text = schema if isinstance(schema, str) else json.dumps(schema)
    parameters = {
        "event_type": event_type,
        "schema": text,
        "compatibility": compatibility,
        "validation": validation,
        "check": json.dumps(asdict(database_check(parse_schema(text)))),
        "expected_version": check.against_version,
        "forced": bool(check.breaks),
        "namespace": namespace,
    }
    statement = """select headrace.set_event_schema(
        p_event_type => %(event_type)s, p_schema => %(schema)s::json, p_compatibility => %(compatibility)s,
        p_validation => %(validation)s, p_check => %(check)s::jsonb, p_expected_version => %(expected_version)s,
        p_forced => %(forced)s, p_namespace => %(namespace)s)"""
    return SchemaChange(int(fetch_value(conn, statement, parameters)), check)


def alter_schema(
    conn: Connection,
    event_type: str,
    *,
    compatibility: Compatibility | None = None,
    validation: Validation | None = None,
    namespace: str | None = None,
) -> None:
    """Changes the settings of an event type's schema; None keeps one. Raises UnknownSchema, InvalidSchema."""
    parameters = (event_type, compatibility, validation, namespace)
    fetch_value(conn, "select headrace.alter_event_schema(%s, %s, %s, %s)", parameters)


def drop_schema(conn: Connection, event_type: str, *, namespace: str | None = None) -> None:
    """Removes the schema of an event type with all its versions. Raises UnknownSchema."""
    fetch_value(conn, "select headrace.drop_event_schema(%s, %s)", (event_type, namespace))


def parse_valid_schema(schema: str | Mapping[str, object]) -> ValueSet:
    """The values of a schema. What we do not understand of it is checked by jsonschema-rs, which must be installed then."""
    values = parse_schema(schema)
    if not values.is_exact:
        text = schema if isinstance(schema, str) else json.dumps(schema)
        try:
            load_validator(text)
        except NotFound as error:
            raise InvalidSchema(f"the schema has keywords that need a validator: {error}") from None
    return values


def load_checker(conn: Connection, *, namespace: str | None = None) -> PayloadChecker:
    """The schemas of a namespace, to check payloads before they are published. Load it again when schemas change."""
    with map_database_errors():
        rows = conn.execute(query("definitions/schemas/checked"), {"namespace": namespace}).fetchall()
    validators = {event_type: (validation, load_validator(text)) for event_type, validation, text, _ in rows}
    is_exact = schemas_are_exact(text for _, _, text, _ in rows)
    return PayloadChecker(validators, digest=rows[0][-1] if rows and is_exact else None)


@dataclass(frozen=True)
class Proposal:
    """A schema that was inferred from events of the log, and from how many."""

    schema: dict[str, JsonValue]
    sample: int


def infer_event_schema(
    conn: Connection, topic: str, event_type: str, *, sample: int = 1000, namespace: str | None = None
) -> Proposal:
    """Proposes a schema from the newest events of a type in a topic's log. Raises UnknownTopic, NotFound if there are none."""
    proposal = _infer(conn, topic, event_type, sample, namespace)
    if proposal is None:
        raise NotFound(f"topic {topic!r} has no event of type {event_type!r} among its last {SCANNED_MAX} events")
    return proposal


def infer_topic_schemas(conn: Connection, topic: str, *, sample: int = 1000, namespace: str | None = None) -> dict[str, Proposal]:
    """Proposes schemas for the event types among the newest events of a topic. Raises UnknownTopic, NotFound if there are none."""
    fetch_value(conn, "select headrace.topic_id(%s, %s)", (topic, namespace))
    event_types = types_by_topic(conn, topic=topic, namespace=namespace).get(topic, [])
    proposals = {event_type: _infer(conn, topic, event_type, sample, namespace) for event_type in event_types}
    # None for a type that only rules name.
    present = {event_type: proposal for event_type, proposal in proposals.items() if proposal is not None}
    if not present:
        raise NotFound(f"topic {topic!r} has no events in its log yet")
    return present


def _infer(conn: Connection, topic: str, event_type: str, sample: int, namespace: str | None) -> Proposal | None:
    if not 1 <= sample <= SCANNED_MAX:
        raise Invalid(f"sample is {sample}; give 1 to {SCANNED_MAX}")
    parameters = {"topic": topic, "event_type": event_type, "sample": sample, "scanned": SCANNED_MAX, "namespace": namespace}
    with map_database_errors():
        rows = conn.execute(query("definitions/schemas/sample"), parameters).fetchall()
    return Proposal(infer_schema(read_json(text) for (text,) in rows), len(rows)) if rows else None


def describe_namespace(conn: Connection, *, namespace: str | None = None) -> dict[str, JsonValue]:
    """The AsyncAPI document of a namespace: its topics, its event types and their schemas."""
    own_namespace = fetch_value(conn, "select headrace.current_namespace(%s)", (namespace,))
    with map_database_errors():
        topics = conn.execute("select topic from headrace.topic where namespace = %s order by 1", (own_namespace,))
        names = [str(topic) for (topic,) in topics.fetchall()]
        described = conn.execute(
            "select event_type, description from headrace.event_type where namespace = %s", (own_namespace,)
        ).fetchall()
        by_topic = types_by_topic(conn, namespace=namespace)
    schemas = list_schemas(conn, namespace=namespace)
    return asyncapi_document(
        title=f"headrace namespace {own_namespace}",
        version=str(sum(entry.version for entry in schemas)),
        topics=names,
        types_by_topic=by_topic,
        descriptions=dict(described),
        schemas={entry.event_type: read_schema(entry.text) for entry in schemas},
    )


ASYNCAPI_VERSION: Final = "3.0.0"
_SCHEMA_FORMAT: Final = "application/schema+json;version=draft-2020-12"


def asyncapi_document(
    *,
    title: str,
    version: str,
    topics: Sequence[str],
    types_by_topic: Mapping[str, Sequence[str]],
    descriptions: Mapping[str, str | None],
    schemas: Mapping[str, JsonValue],
) -> dict[str, JsonValue]:
    """The document. A type without a schema is a message without a payload description."""
    types = sorted({name for names in types_by_topic.values() for name in names} | schemas.keys() | descriptions.keys())
    ids = _asyncapi_ids([*types])
    channel_ids = _asyncapi_ids([*topics])
    messages = {ids[name]: _asyncapi_message(name, descriptions.get(name), schemas.get(name)) for name in types}
    channels: dict[str, JsonValue] = {}
    operations: dict[str, JsonValue] = {}
    for topic in topics:
        channel = channel_ids[topic]
        names = types_by_topic.get(topic, [])
        channels[channel] = {
            "address": topic,
            "messages": {ids[name]: {"$ref": f"#/components/messages/{ids[name]}"} for name in names},
        }
        for action in ("send", "receive"):
            operations[f"{action}-{channel}"] = {
                "action": action,
                "channel": {"$ref": f"#/channels/{channel}"},
                "messages": [{"$ref": f"#/channels/{channel}/messages/{ids[name]}"} for name in names],
            }
    return {
        "asyncapi": ASYNCAPI_VERSION,
        "info": {"title": title, "version": version},
        "defaultContentType": "application/json",
        "channels": channels,
        "operations": operations,
        "components": {"messages": dict(messages)},
    }


def _asyncapi_message(name: str, description: str | None, schema: JsonValue) -> JsonValue:
    message: dict[str, JsonValue] = {"name": name, "contentType": "application/json"}
    if description:
        message["description"] = description
    if schema is not None:
        message["payload"] = {"schemaFormat": _SCHEMA_FORMAT, "schema": schema}
    return message


def _asyncapi_ids(names: list[str]) -> dict[str, str]:
    """An id of the characters that AsyncAPI allows for each name, and no id twice."""
    ids: dict[str, str] = {}
    for name in sorted(names):
        text = re.sub(r"[^A-Za-z0-9._-]", "_", name)
        while text in ids.values():
            text += "_"
        ids[name] = text
    return ids
