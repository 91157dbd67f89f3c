"""One line of a file of events, read strictly: a name nobody knows is an error, not silence."""

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


def read_event(line: bytes, number: int, given: Event, *, cloudevent: bool) -> Event:
    """The event of a line; what the line leaves open comes from `given`. Errors name the line."""
    try:
        if cloudevent:
            return from_cloudevent(line, topic=given.topic)
        return _read(_decoder.decode(line), given)
    except RecursionError:
        raise PayloadTooDeep(f"line {number}: payload nests too deeply; flatten it, or store it elsewhere") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Invalid(f"line {number}: {error}; a line is an object with type, payload and other members of an event") from None
    except HeadraceError as error:
        raise type(error)(f"line {number}: {error}") from None


def _read(line: _Line, given: Event) -> Event:
    event = msgspec.structs.replace(
        given,
        type=line.type or given.type,
        # A copy: the line's buffer is not kept.
        payload=line.payload.copy(),
        # An empty key is a mistake to be told, not a key left out.
        key=given.key if line.key is None else line.key,
        headers=line.headers if line.headers is not None else given.headers,
        emitted_at=line.emitted_at,
        producer=line.producer or given.producer,
        id=line.id or Event(topic="", type="").id,
    )
    if not event.type:
        raise Invalid("has no type; add it to the line, or as TYPE on the command line")
    return event
