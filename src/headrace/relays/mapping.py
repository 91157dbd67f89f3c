"""Mapping: an event as the message that a target sends.

Formats: `stored` (the payload as the log has it), `cloudevents` (structured JSON), `cloudevents-binary` (the payload, with the
attributes in ce-… headers) and `template` (fields by a mapping). Promises: numbers keep every digit; no header has a character that
could end it; a mistake in a template is found when the relay is written."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, TypeAlias, cast
from urllib.parse import quote

import msgspec

from headrace.core import (
    JSON,
    EventPath,
    Invalid,
    InvalidRelay,
    LoggedEvent,
    RawJSON,
    decode,
    encode,
    follow_path,
    parse_event_path,
    to_cloudevent,
)
from headrace.lang.condition import Json, decode_json, jsonb_text
from headrace.relays.targets.target import Message

Format: TypeAlias = Literal["stored", "cloudevents", "cloudevents-binary", "template"]
FIELDS_MAX: Final = 500
DEPTH_MAX: Final = 20
HEADERS_MAX: Final = 50
HEADER_CHARS_MAX: Final = 2048

_JSON_TYPE: Final = "application/json"
_CLOUDEVENT_TYPE: Final = "application/cloudevents+json"
_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
# RFC 7230: what HTTP itself, or a proxy on the way, reads. No header of an event may take its place.
_RESERVED_HEADERS: Final = re.compile(
    r"(?i)(host|content-.*|transfer-encoding|connection|keep-alive|upgrade|te|trailer|authorization|cookie|proxy-.*|expect|date"
    r"|user-agent|accept.*|forwarded|x-forwarded-.*|x-real-ip|webhook-.*|ce-.*)"
)

MappingValue: TypeAlias = "EventPath | None | bool | int | float | str | Sequence[MappingValue] | Mapping[str, MappingValue]"


def parse_mapping(mapping: Mapping[str, JSON]) -> Mapping[str, MappingValue]:
    """The template of a mapping. Raises InvalidRelay with the field that is wrong."""
    if not isinstance(mapping, Mapping) or not mapping:
        raise InvalidRelay(
            'the mapping is not an object with fields; write for example {"id": "$.id", "total": "$.payload.total"}'
        )
    count = [0]
    return {name: _parse_value(value, name, count, 1) for name, value in mapping.items()}


def _parse_value(value: JSON, field: str, count: list[int], depth: int) -> MappingValue:
    count[0] += 1
    if count[0] > FIELDS_MAX or depth > DEPTH_MAX:
        raise InvalidRelay(f"mapping, field {field}: a mapping has at most {FIELDS_MAX} fields and {DEPTH_MAX} levels")
    if isinstance(value, str):
        return _parse_text(value, field)
    if isinstance(value, Mapping):
        return {name: _parse_value(part, f"{field}.{name}", count, depth + 1) for name, part in value.items()}
    if isinstance(value, Sequence):
        return [_parse_value(part, f"{field}[{index}]", count, depth + 1) for index, part in enumerate(value)]
    return value


def _parse_text(text: str, field: str) -> MappingValue:
    if text.startswith("$$"):
        return text[1:]
    if not text.startswith("$"):
        return text
    try:
        return parse_event_path(text)
    except Invalid as error:
        raise InvalidRelay(f"mapping, field {field}: {error}") from None


class Mapper:
    """Turns events into the messages of one relay. The events have payload and headers as JSON text."""

    def __init__(self, relay: str, format: Format, mapping: Mapping[str, JSON] | None, *, uid: str = "") -> None:
        self._relay = relay
        self._uid = uid
        self._format = format
        self._mapping_values = parse_mapping(mapping or {}) if format == "template" else None
        self._body: Callable[[LoggedEvent[RawJSON]], bytes] = {
            "stored": lambda event: bytes(event.payload),
            "cloudevents-binary": lambda event: bytes(event.payload),
            "cloudevents": lambda event: to_cloudevent(cast(LoggedEvent, event)).encode(),
            "template": self._fill_mapping,
        }[format]
        self._content_type = _CLOUDEVENT_TYPE if format == "cloudevents" else _JSON_TYPE

    def to_message(self, event: LoggedEvent[RawJSON], *, is_redriven: bool = False) -> Message:
        """The message of an event."""
        if isinstance(event.headers, msgspec.Raw):
            event = msgspec.structs.replace(event, headers=decode(bytes(event.headers)))
        return Message(
            relay=self._relay,
            topic=event.topic,
            partition=event.partition,
            position=event.position,
            event_id=event.id,
            event_type=event.type,
            key=event.key,
            emitted_at=event.emitted_at,
            body=self._body(event),
            content_type=self._content_type,
            headers=self._headers(event),
            relay_uid=self._uid,
            is_redriven=is_redriven,
        )

    def _fill_mapping(self, event: LoggedEvent[RawJSON]) -> bytes:
        assert self._mapping_values is not None
        values: dict[str, Json] = {
            "id": str(event.id), "topic": event.topic, "type": event.type, "key": event.key, "partition": event.partition,
            "position": event.position, "emitted_at": event.emitted_at.isoformat(), "appended_at": event.appended_at.isoformat(),
            "producer": event.producer, "headers": decode_json(encode(event.headers)),
            "payload": decode_json(bytes(event.payload).decode()),
        }  # fmt: skip
        return jsonb_text(_fill(self._mapping_values, values)).encode()

    def _headers(self, event: LoggedEvent[RawJSON]) -> dict[str, str]:
        headers: dict[str, str] = {}
        for name, value in event.headers.items():
            is_text = isinstance(value, str) and not name.startswith("ce_")
            if is_text and _HEADER_NAME.fullmatch(name) and not _RESERVED_HEADERS.fullmatch(name) and len(headers) < HEADERS_MAX:
                headers[name] = header_text(str(value))
        if self._format == "cloudevents-binary":
            headers |= _binary_headers(event)
        return headers


def _binary_headers(event: LoggedEvent[RawJSON]) -> dict[str, str]:
    attributes = decode(to_cloudevent(cast(LoggedEvent, msgspec.structs.replace(event, payload=None))))
    assert isinstance(attributes, Mapping)
    # The trace context is a header of its own, by W3C's names.
    return {
        f"ce-{name}": header_text(value if isinstance(value, str) else encode(value))
        for name, value in attributes.items()
        if name not in ("datacontenttype", "traceparent", "tracestate")
    }


def header_text(text: str) -> str:
    """A text as the value of a header, as CloudEvents has it: whatever is not printable ASCII is percent-encoded, cut to a limit."""
    return quote(text[:HEADER_CHARS_MAX].encode("utf-8", "replace"), safe="!#$&'()*+,/:;=?@[]^`{|}<>\\~-._ ").strip()


def _fill(value: MappingValue, values: Mapping[str, Json]) -> Json:
    if isinstance(value, EventPath):
        return cast(Json, follow_path(cast(JSON, values[value.root]), value.steps))
    if isinstance(value, Mapping):
        return {name: _fill(part, values) for name, part in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_fill(part, values) for part in value]
    return value


def check_mapping(format: Format, mapping: Mapping[str, JSON] | None) -> None:
    """Raises InvalidRelay where format and mapping do not fit, or the mapping is wrong."""
    if format == "template":
        parse_mapping(mapping or {})
    elif mapping is not None:
        raise InvalidRelay(f"a mapping is for the format template, not for {format}; leave one of them out")
