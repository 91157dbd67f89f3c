"""AsyncAPI 3.0: a namespace as a document. Topics are channels, event types are messages, and their schemas are the payloads."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from headrace.definitions.schemas.value_set import JsonValue

VERSION: Final = "3.0.0"
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
    ids = _ids([*types])
    channel_ids = _ids([*topics])
    messages = {ids[name]: _message(name, descriptions.get(name), schemas.get(name)) for name in types}
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
        "asyncapi": VERSION,
        "info": {"title": title, "version": version},
        "defaultContentType": "application/json",
        "channels": channels,
        "operations": operations,
        "components": {"messages": dict(messages)},
    }


def _message(name: str, description: str | None, schema: JsonValue) -> JsonValue:
    message: dict[str, JsonValue] = {"name": name, "contentType": "application/json"}
    if description:
        message["description"] = description
    if schema is not None:
        message["payload"] = {"schemaFormat": _SCHEMA_FORMAT, "schema": schema}
    return message


def _ids(names: list[str]) -> dict[str, str]:
    """An id of the characters that AsyncAPI allows for each name, and no id twice."""
    ids: dict[str, str] = {}
    for name in sorted(names):
        text = re.sub(r"[^A-Za-z0-9._-]", "_", name)
        while text in ids.values():
            text += "_"
        ids[name] = text
    return ids
