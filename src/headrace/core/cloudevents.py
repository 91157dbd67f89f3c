"""CloudEvents 1.0 in structured JSON, in and out.

Owns the mapping: id ↔ id, type ↔ type, source ↔ producer, the partitionkey extension ↔ key, time ↔ emitted_at, data ↔ payload,
traceparent and tracestate ↔ the headers of the same name; subject, datacontenttype, dataschema and other extensions ↔ headers
with the prefix `ce_`. headrace.publish_cloudevent does the same in SQL.
Promises: a CloudEvent comes out as it came in (time as the same instant), and an event comes in as it went out.
An id that is not a UUID becomes a UUID derived from source and id, and stays in `ce_id`: a repeated delivery is one event."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

import msgspec

from headrace.core.errors import Invalid, InvalidCloudEvent
from headrace.core.events import Event, LoggedEvent, derive_event_id
from headrace.core.json_forms import RawJSON
from headrace.core.json_text import JSON, decode, encode

_TRACE: Final = ("traceparent", "tracestate")
_OTHER_HEADERS: Final = "headraceheaders"
"""The extension with the headers that have no CloudEvents form, as JSON text."""
_BASE64: Final = "ce_data_base64"
_MAPPED: Final = frozenset({"specversion", "type", "source", "partitionkey", "data", "data_base64", _OTHER_HEADERS, *_TRACE})
_TEXTS: Final = ("subject", "time", "datacontenttype", "dataschema", "partitionkey")

_name_pattern: Final = re.compile(r"[a-z0-9]+")
_uuid_pattern: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_time_pattern: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_sub_microsecond: Final = re.compile(r"(\.\d{6})\d+")


def from_cloudevent(cloudevent: str | bytes | Mapping[str, JSON], *, topic: str) -> Event:
    """The event to publish for a CloudEvent. Data in a text is stored as written, so that every digit is kept."""
    attributes, payload = _split_data(cloudevent)
    _check(attributes, payload)
    cloudevent_id, source = str(attributes["id"]), str(attributes["source"])
    id = _event_id(source, cloudevent_id)
    headers = {
        name if name in _TRACE else f"ce_{name}": value
        for name, value in attributes.items()
        if name in _TRACE or name not in _MAPPED
    }
    if str(id) == cloudevent_id:
        del headers["ce_id"]
    time = _text(attributes, "time")
    if time is not None and not _sub_microsecond.search(time):
        del headers["ce_time"]
    if "data_base64" in attributes:
        payload = attributes["data_base64"]
        headers[_BASE64] = True
    return Event(
        topic=topic,
        type=str(attributes["type"]),
        payload=payload,
        key=_text(attributes, "partitionkey"),
        headers=headers | _other_headers(attributes),
        id=id,
        emitted_at=None if time is None else _parse_time(time),
        producer=None if source == f"/topics/{topic}" else source,
    )


def to_cloudevent(event: Event | LoggedEvent) -> str:
    """The CloudEvent of an event, as JSON text. Its source is the producer, or /topics/<topic> for an event without one."""
    source = event.producer or f"/topics/{event.topic}"
    attributes: dict[str, JSON] = {"specversion": "1.0", "id": str(event.id), "source": source, "type": event.type}
    other_headers: dict[str, JSON] = {}
    for name, value in event.headers.items():
        if name in _TRACE and _is_scalar(value):
            attributes[name] = value
        elif _is_attribute(name, value, event, source):
            attributes[name.removeprefix("ce_")] = value
        elif name != _BASE64 or value is not True or not isinstance(event.payload, str):
            other_headers[name] = value
    if event.key is not None:
        attributes["partitionkey"] = event.key
    if event.emitted_at is not None:
        attributes.setdefault("time", _format_time(event.emitted_at))
    if other_headers:
        attributes[_OTHER_HEADERS] = encode(other_headers)
    if event.headers.get(_BASE64) is True and isinstance(event.payload, str):
        return encode(attributes | {"data_base64": event.payload})
    if event.payload is None:
        return encode(attributes)
    # The payload is inserted as text, so that raw JSON keeps every digit.
    return f'{encode(attributes)[:-1]},"data":{encode(event.payload)}}}'


def _split_data(cloudevent: str | bytes | Mapping[str, JSON]) -> tuple[dict[str, JSON], JSON | RawJSON]:
    """The attributes that are set, and the data."""
    if isinstance(cloudevent, Mapping):
        return {name: value for name, value in cloudevent.items() if name != "data" and value is not None}, cloudevent.get("data")
    try:
        members = msgspec.json.decode(cloudevent, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _invalid(f"it is not a JSON object: {error}") from None
    data = members.pop("data", msgspec.Raw(b"null"))
    values = {name: decode(bytes(raw)) for name, raw in members.items()}
    return {name: value for name, value in values.items() if value is not None}, None if bytes(data) == b"null" else data


def _check(attributes: Mapping[str, JSON], payload: JSON | RawJSON) -> None:
    if attributes.get("specversion") != "1.0":
        raise _invalid(f"specversion is {attributes.get('specversion', 'missing')}, not 1.0")
    for name in ("id", "source", "type"):
        if not isinstance(attributes.get(name), str) or not attributes[name]:
            raise _invalid(f"{name} is missing or not text")
    if payload is not None and "data_base64" in attributes:
        raise _invalid("it has both data and data_base64")
    for name, value in attributes.items():
        if name == "data_base64":
            is_valid = isinstance(value, str)
        elif name in _TEXTS:
            is_valid = isinstance(value, str) and value != ""
        else:
            is_valid = _name_pattern.fullmatch(name) is not None and _is_scalar(value)
        if not is_valid:
            raise _invalid(f'attribute "{name}" breaks the rules')


def _invalid(reason: str) -> InvalidCloudEvent:
    return InvalidCloudEvent(
        f'not a CloudEvents 1.0 event: {reason}; it needs specversion "1.0", id, source and type; names are a-z and 0-9'
    )


def _is_scalar(value: JSON) -> bool:
    return isinstance(value, bool | int | float | str)


def _text(attributes: Mapping[str, JSON], name: str) -> str | None:
    value = attributes.get(name)
    return value if isinstance(value, str) else None


def _event_id(source: str, id: str) -> UUID:
    return UUID(id) if _uuid_pattern.fullmatch(id) else derive_event_id(source, id)


def _parse_time(text: str) -> datetime:
    if not _time_pattern.fullmatch(text):
        raise _invalid('attribute "time" breaks the rules')
    try:
        return datetime.fromisoformat(_sub_microsecond.sub(r"\1", text).upper())
    except ValueError as error:
        raise _invalid(f"time {text}: {error}") from None


def _format_time(at: datetime) -> str:
    offset = at.utcoffset()
    # RFC 3339 has no offsets with seconds.
    has_whole_minutes = offset is not None and offset.total_seconds() % 60 == 0
    return (at if has_whole_minutes else at.astimezone(UTC)).isoformat()


def _other_headers(attributes: Mapping[str, JSON]) -> dict[str, JSON]:
    text = _text(attributes, _OTHER_HEADERS)
    if text is None:
        return {}
    try:
        value = decode(text)
    except Invalid as error:
        raise _invalid(f"{_OTHER_HEADERS}: {error}") from None
    if not isinstance(value, Mapping):
        raise _invalid(f"{_OTHER_HEADERS} is not a JSON object in a string")
    return dict(value)


def _is_attribute(name: str, value: JSON, event: Event | LoggedEvent, source: str) -> bool:
    """True if a header becomes an attribute: only if the attribute would come in again as the same header."""
    attribute = name.removeprefix("ce_")
    if attribute == name or attribute in _MAPPED or not _name_pattern.fullmatch(attribute) or not _is_scalar(value):
        return False
    if attribute == "id":
        return isinstance(value, str) and value != str(event.id) and value != "" and _event_id(source, value) == event.id
    if attribute == "time":
        is_precise = isinstance(value, str) and _time_pattern.fullmatch(value) and _sub_microsecond.search(value)
        return bool(is_precise) and _parse_time(str(value)) == event.emitted_at
    return attribute not in _TEXTS or (isinstance(value, str) and value != "")
