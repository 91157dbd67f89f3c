"""Reads one line of a file of events. An unknown member is an error."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from headrace.core import Event, HeadraceError, Invalid, PayloadTooDeep, RawJSON, from_cloudevent


class _Line(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    type: str = ""
    payload: RawJSON = msgspec.Raw(b"null")
    key: str | None = None
    headers: dict[str, Any] | None = None
    id: UUID | None = None
    emitted_at: datetime | None = None
    producer: str | None = None


_decoder = msgspec.json.Decoder(_Line)


def read_event(line: bytes, number: int, defaults: Event, *, cloudevent: bool) -> Event:
    """The event of a line; members that the line lacks come from `defaults`. Errors name the line."""
    try:
        if cloudevent:
            return from_cloudevent(line, topic=defaults.topic)
        return _event(_decoder.decode(line), defaults)
    except RecursionError:
        raise PayloadTooDeep(f"line {number}: payload is nested too deeply; flatten it, or store it elsewhere") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Invalid(f"line {number}: {error}; a line is an object with type, payload and other members of an event") from None
    except HeadraceError as error:
        raise type(error)(f"line {number}: {error}") from None


def _event(line: _Line, defaults: Event) -> Event:
    event = msgspec.structs.replace(
        defaults,
        type=line.type or defaults.type,
        # A copy: the buffer of the line is not kept.
        payload=line.payload.copy(),
        # An empty key is kept, so that it is reported as an error.
        key=defaults.key if line.key is None else line.key,
        headers=line.headers if line.headers is not None else defaults.headers,
        emitted_at=line.emitted_at,
        producer=line.producer or defaults.producer,
        id=line.id or Event(topic="", type="").id,
    )
    if not event.type:
        raise Invalid("the event has no type; add it to the line, or as TYPE on the command line")
    return event
