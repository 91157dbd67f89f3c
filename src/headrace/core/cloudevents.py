"""CloudEvents 1.0 in structured JSON, in and out.

Owns the mapping: id ↔ id, type ↔ type, source ↔ producer, the partitionkey extension ↔ key, time ↔ emitted_at, data ↔ payload,
traceparent and tracestate ↔ headers of the same name, subject, datacontenttype, dataschema and other extensions ↔ headers
with `ce_` before the name. headrace.publish_cloudevent does the same in SQL.
Promises: what comes in goes out the same (time as the same instant), and an event that goes out comes in the same.
An id that is not a uuid becomes a name-based one, of source and id, and stays in `ce_id`; so a repeated delivery is one event."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final
from uuid import UUID

import msgspec

from headrace.core.errors import BadCloudEvent, Invalid
from headrace.core.events import Event, LoggedEvent
from headrace.core.json_text import JSON, RawJSON, decode, encode

_TRACE: Final = ("traceparent", "tracestate")
_REST: Final = "headraceheaders"
"""The extension that carries headers which CloudEvents has no form for, as JSON text."""
_BASE64: Final = "ce_data_base64"
_OWN: Final = frozenset({"specversion", "type", "source", "partitionkey", "data", "data_base64", _REST, *_TRACE})
_TEXTS: Final = ("subject", "time", "datacontenttype", "dataschema", "partitionkey")

_name_rule: Final = re.compile(r"[a-z0-9]+")
_uuid_rule: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_time_rule: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_sub_microsecond: Final = re.compile(r"(\.\d{6})\d+")


def from_cloudevent(cloudevent: str | bytes | Mapping[str, JSON], *, topic: str) -> Event:
    """The event to publish for a CloudEvent. Data given as text stays as it is written, so that every digit is kept."""
    attributes, payload = _opened(cloudevent)
    _check(attributes, payload)
    given, source = str(attributes["id"]), str(attributes["source"])
    id = _event_id(source, given)
    headers = {
        name if name in _TRACE else f"ce_{name}": value
        for name, value in attributes.items()
        if name in _TRACE or name not in _OWN
    }
    if str(id) == given:
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
        headers=headers | _rest_of(attributes),
        id=id,
        emitted_at=None if time is None else _instant(time),
        producer=None if source == f"/topics/{topic}" else source,
    )


def to_cloudevent(event: Event | LoggedEvent) -> str:
    """The CloudEvent of an event, as JSON text. The source is the producer, or /topics/<topic> for an event without one."""
    source = event.producer or f"/topics/{event.topic}"
    attributes: dict[str, JSON] = {"specversion": "1.0", "id": str(event.id), "source": source, "type": event.type}
    rest: dict[str, JSON] = {}
    for name, value in event.headers.items():
        if name in _TRACE and _simple(value):
            attributes[name] = value
        elif _goes_out(name, value, event, source):
            attributes[name.removeprefix("ce_")] = value
        elif name != _BASE64 or value is not True or not isinstance(event.payload, str):
            rest[name] = value
    if event.key is not None:
        attributes["partitionkey"] = event.key
    if event.emitted_at is not None:
        attributes.setdefault("time", _written(event.emitted_at))
    if rest:
        attributes[_REST] = encode(rest)
    return _with_data(attributes, event)


def _opened(cloudevent: str | bytes | Mapping[str, JSON]) -> tuple[dict[str, JSON], JSON | RawJSON]:
    """Attributes that are set, and the data."""
    if isinstance(cloudevent, Mapping):
        return {name: value for name, value in cloudevent.items() if name != "data" and value is not None}, cloudevent.get("data")
    try:
        members = msgspec.json.decode(cloudevent, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _wrong(f"it is not a JSON object: {error}") from None
    data = members.pop("data", msgspec.Raw(b"null"))
    values = {name: decode(bytes(raw)) for name, raw in members.items()}
    return {name: value for name, value in values.items() if value is not None}, None if bytes(data) == b"null" else data


def _check(attributes: Mapping[str, JSON], payload: JSON | RawJSON) -> None:
    if attributes.get("specversion") != "1.0":
        raise _wrong(f"specversion is {attributes.get('specversion', 'missing')}, not 1.0")
    for name in ("id", "source", "type"):
        if not isinstance(attributes.get(name), str) or not attributes[name]:
            raise _wrong(f"{name} is missing or not text")
    if payload is not None and "data_base64" in attributes:
        raise _wrong("it has both data and data_base64")
    for name, value in attributes.items():
        if name == "data_base64":
            fine = isinstance(value, str)
        elif name in _TEXTS:
            fine = isinstance(value, str) and value != ""
        else:
            fine = _name_rule.fullmatch(name) is not None and _simple(value)
        if not fine:
            raise _wrong(f'attribute "{name}" breaks the rules')


def _wrong(what: str) -> BadCloudEvent:
    return BadCloudEvent(
        f'not a CloudEvents 1.0 event: {what}; it needs specversion "1.0", id, source and type; names are a-z and 0-9'
    )


def _simple(value: JSON) -> bool:
    return isinstance(value, bool | int | float | str)


def _text(attributes: Mapping[str, JSON], name: str) -> str | None:
    value = attributes.get(name)
    return value if isinstance(value, str) else None


def _event_id(source: str, id: str) -> UUID:
    if _uuid_rule.fullmatch(id):
        return UUID(id)
    # Version 8, not 5: PostgreSQL has SHA-256 but no SHA-1 of its own, and SQL must come to the same id.
    digest = bytearray(sha256(f"{source}\n{id}".encode()).digest()[:16])
    digest[6] = digest[6] & 15 | 128
    digest[8] = digest[8] & 63 | 128
    return UUID(bytes=bytes(digest))


def _instant(time: str) -> datetime:
    if not _time_rule.fullmatch(time):
        raise _wrong('attribute "time" breaks the rules')
    try:
        return datetime.fromisoformat(_sub_microsecond.sub(r"\1", time).upper())
    except ValueError as error:
        raise _wrong(f"time {time}: {error}") from None


def _written(at: datetime) -> str:
    offset = at.utcoffset()
    # RFC 3339 has no offset in seconds.
    whole = offset is not None and offset.total_seconds() % 60 == 0
    return (at if whole else at.astimezone(UTC)).isoformat()


def _rest_of(attributes: Mapping[str, JSON]) -> dict[str, JSON]:
    text = _text(attributes, _REST)
    if text is None:
        return {}
    try:
        value = decode(text)
    except Invalid as error:
        raise _wrong(f"{_REST}: {error}") from None
    if not isinstance(value, Mapping):
        raise _wrong(f"{_REST} is not a JSON object in a string")
    return dict(value)


def _goes_out(name: str, value: JSON, event: Event | LoggedEvent, source: str) -> bool:
    """Whether a header becomes an attribute: only where it would come in again as the same header."""
    attribute = name.removeprefix("ce_")
    if attribute == name or attribute in _OWN or not _name_rule.fullmatch(attribute) or not _simple(value):
        return False
    if attribute == "id":
        return isinstance(value, str) and value != str(event.id) and value != "" and _event_id(source, value) == event.id
    if attribute == "time":
        fine = isinstance(value, str) and _time_rule.fullmatch(value) and _sub_microsecond.search(value)
        return bool(fine) and _instant(str(value)) == event.emitted_at
    return attribute not in _TEXTS or (isinstance(value, str) and value != "")


def _with_data(attributes: dict[str, JSON], event: Event | LoggedEvent) -> str:
    payload = event.payload
    if event.headers.get(_BASE64) is True and isinstance(payload, str):
        return encode(attributes | {"data_base64": payload})
    if payload is None:
        return encode(attributes)
    # The payload is put in as text: a raw one keeps every digit.
    return f'{encode(attributes)[:-1]},"data":{encode(payload)}}}'
