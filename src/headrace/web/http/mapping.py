"""Mapping: how a webhook becomes an event. Pure.

A mapping has templates (see core/templates.py) for `type`, `key`, `id` and `payload`, with these placeholders:

    {header:x-github-event}          a header of the request
    {query:source}                   a parameter of its URL
    {body:repository.full_name}      a field of its JSON; numbers count into arrays
    {hook}                           the name of the hook
    {body:action|none}               `none` if the request does not have it

The payload is one placeholder: {body}, which is all of it, or {body:data.object}. A key or id whose field is missing is left out;
a type needs all of its fields."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Mapping as JsonObject
from dataclasses import asdict, dataclass
from typing import Final

import msgspec

from headrace.core import (
    JSON,
    Invalid,
    InvalidHook,
    PackageMissing,
    Placeholder,
    RawJSON,
    array_index,
    decode,
    follow_path,
    parse_path,
    parse_template,
)
from headrace.web.http.signatures import SCHEMES

MEMBERS: Final = ("type", "key", "id", "payload")
PLACEHOLDERS: Final = ("header:name", "query:name", "body:path", "hook")
PAYLOAD_PLACEHOLDERS: Final = ("body:path", "body")


@dataclass(frozen=True)
class Webhook:
    """What a mapping reads of a request."""

    hook: str
    header: Callable[[str], str | None]
    query: Callable[[str], str | None]
    body: bytes
    """JSON."""


@dataclass(frozen=True)
class MappedEvent:
    """What a mapping makes of a request."""

    type: str
    key: str | None
    id: str | None
    payload: RawJSON


@dataclass(frozen=True)
class Mapping:
    """The templates of a hook."""

    type: str
    key: str | None = None
    id: str | None = None
    payload: str = "{body}"

    def apply(self, webhook: Webhook) -> MappedEvent:
        """Raises InvalidHook if the request lacks what the mapping needs, InvalidPayload if its body is not JSON."""
        tree = decode(webhook.body)

        def fill(template: str) -> str | None:
            return parse_template(template, PLACEHOLDERS).fill(lambda placeholder: _value(placeholder, webhook, tree)) or None

        type = fill(self.type)
        if type is None:
            raise InvalidHook(
                f"the request has not all fields of the type {self.type}; change the mapping, or give defaults as in {{…|none}}"
            )
        return MappedEvent(
            type,
            fill(self.key) if self.key else None,
            fill(self.id) if self.id else None,
            self._payload(webhook),
        )

    def _payload(self, webhook: Webhook) -> RawJSON:
        (body,) = parse_template(self.payload, PAYLOAD_PLACEHOLDERS).placeholders
        if body.argument is None:
            # As it was written: every digit is kept.
            return msgspec.Raw(webhook.body)
        raw = _raw_value(webhook.body, parse_path(body.argument))
        if raw is None:
            raise InvalidHook(f"the request has no field for the payload {self.payload}; change the mapping")
        return raw


def parse_mapping(scheme: str, mapping: JsonObject[str, str]) -> Mapping:
    """The mapping of a hook, completed by that of its scheme. Raises InvalidHook, and PackageMissing for a scheme that
    is not here."""
    if unknown := sorted(set(mapping) - set(MEMBERS)):
        raise InvalidHook(f"the mapping has an unknown member {unknown[0]!r}; its members are {', '.join(MEMBERS)}")
    for name, text in mapping.items():
        if not isinstance(text, str) or not text or len(text) > 1000:
            raise InvalidHook(f"the mapping's {name} is not a text of 1 to 1000 characters")
        try:
            template = parse_template(text, PAYLOAD_PLACEHOLDERS if name == "payload" else PLACEHOLDERS)
        except Invalid as error:
            raise InvalidHook(f"the mapping's {name} {text!r}: {error}") from None
        parts = template.placeholders
        if name == "payload" and (len(template.parts) != 1 or len(parts) != 1 or parts[0].default is not None):
            raise InvalidHook("the mapping's payload is not one placeholder; write {body} or {body:path}")
    return Mapping(**{**SCHEMES.load(scheme).mapping, **mapping})


def describe_mapping(scheme: str, mapping: JsonObject[str, str]) -> JsonObject[str, str | None]:
    """The templates of a hook for people: completed by those of its scheme if that is here, otherwise only the hook's own."""
    try:
        return asdict(parse_mapping(scheme, mapping))
    except PackageMissing:
        return {**mapping}


def _value(placeholder: Placeholder, webhook: Webhook, tree: JSON) -> str | None:
    """What a request has for a placeholder; None for nothing, and for an empty text."""
    if placeholder.root == "hook":
        return webhook.hook
    assert placeholder.argument is not None, "parse_template has checked it"
    if placeholder.root == "header":
        return webhook.header(placeholder.argument.lower()) or None
    if placeholder.root == "query":
        return webhook.query(placeholder.argument) or None
    value = follow_path(tree, parse_path(placeholder.argument))
    if isinstance(value, bool):
        return "true" if value else "false"
    # Objects, arrays and null name nothing.
    return str(value) or None if isinstance(value, str | int | float) else None


def _raw_value(body: bytes, steps: Sequence[str | int]) -> RawJSON | None:
    """The text of a value, as it was written."""
    raw = msgspec.Raw(body)
    try:
        for step in steps:
            if bytes(raw).lstrip()[:1] == b"[":
                index = array_index(step)
                raw = msgspec.json.decode(raw, type=list[msgspec.Raw])[-1 if index is None else index]
            else:
                raw = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])[str(step)]
    except (KeyError, IndexError, ValueError):
        return None
    return raw
