"""Mapping: how a webhook becomes an event. Pure.

A mapping has templates for `type`, `key`, `id` and `payload`. A template is text with placeholders:

    {header:x-github-event}          a header of the request
    {query:source}                   a parameter of its URL
    {body:repository.full_name}      a field of its JSON; numbers count into arrays
    {hook}                           the name of the hook
    {body:action|none}               `none` if the request does not have it

The payload is one placeholder: {body}, which is all of it, or {body:data.object}. A key or id whose field is missing is left out;
a type needs all of its fields."""

from __future__ import annotations

import re
from collections.abc import Callable
from collections.abc import Mapping as JsonObject
from dataclasses import dataclass
from typing import Final

import msgspec

from headrace.core import JSON, InvalidHook, RawJSON, decode

MEMBERS: Final = ("type", "key", "id", "payload")
DEFAULTS: Final[JsonObject[str, JsonObject[str, str]]] = {
    "github": {
        "type": "github.{header:x-github-event}",
        "key": "{body:repository.full_name}",
        "id": "{header:x-github-delivery}",
    },
    "stripe": {"type": "stripe.{body:type}", "key": "{body:data.object.id}", "id": "{body:id}"},
    "standard-webhooks": {"type": "{body:type}", "id": "{header:webhook-id}"},
    "token": {"type": "{hook}.received"},
}
"""The mappings of the schemes; a hook's own members replace them."""
_placeholder: Final = re.compile(
    r"\{(?:(?P<kind>header|query|body):(?P<name>[^{}|]+)|(?P<whole>body|hook))(?:\|(?P<default>[^{}|]*))?\}"
)


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
        type = _fill(self.type, webhook, tree)
        if type is None:
            raise InvalidHook(
                f"the request has not all fields of the type {self.type}; change the mapping, or give defaults as in {{…|none}}"
            )
        return MappedEvent(
            type,
            _fill(self.key, webhook, tree) if self.key else None,
            _fill(self.id, webhook, tree) if self.id else None,
            self._payload(webhook, tree),
        )

    def _payload(self, webhook: Webhook, tree: JSON) -> RawJSON:
        if self.payload == "{body}":
            # As it was written: every digit is kept.
            return msgspec.Raw(webhook.body)
        match = _placeholder.fullmatch(self.payload)
        assert match is not None, "parse_mapping has checked it"
        raw = _raw_field(webhook.body, match["name"])
        if raw is None:
            raise InvalidHook(f"the request has no field for the payload {self.payload}; change the mapping")
        return raw


def parse_mapping(scheme: str, mapping: JsonObject[str, str]) -> Mapping:
    """The mapping of a hook, completed by that of its scheme. Raises InvalidHook."""
    if unknown := sorted(set(mapping) - set(MEMBERS)):
        raise InvalidHook(f"the mapping has an unknown member {unknown[0]!r}; its members are {', '.join(MEMBERS)}")
    for name, template in mapping.items():
        if not isinstance(template, str) or not template or len(template) > 1000:
            raise InvalidHook(f"the mapping's {name} is not a text of 1 to 1000 characters")
        if "{" in (rest := _placeholder.sub("", template)) or "}" in rest:
            raise InvalidHook(
                f"the mapping's {name} {template!r} has a brace that is no placeholder; "
                "write {header:name}, {query:name}, {body:path}, {body} or {hook}"
            )
        if name != "payload" and any(match["whole"] == "body" for match in _placeholder.finditer(template)):
            raise InvalidHook(f"the mapping's {name} cannot be the whole body; name a field, as in {{body:id}}")
    payload = _placeholder.fullmatch(mapping.get("payload", "{body}"))
    if payload is None or not (payload["whole"] == "body" or payload["kind"] == "body") or payload["default"] is not None:
        raise InvalidHook("the mapping's payload is not one placeholder; write {body} or {body:path}")
    return Mapping(**{**DEFAULTS[scheme], **mapping})


def _fill(template: str, webhook: Webhook, tree: JSON) -> str | None:
    """The template with its values; None if one is missing."""
    parts: list[str] = []
    end = 0
    for match in _placeholder.finditer(template):
        value = _value(match, webhook, tree)
        if value is None or value == "":
            value = match["default"]
        if value is None:
            return None
        parts += [template[end : match.start()], value]
        end = match.end()
    return "".join(parts) + template[end:] or None


def _value(match: re.Match[str], webhook: Webhook, tree: JSON) -> str | None:
    if match["whole"] == "hook":
        return webhook.hook
    if match["kind"] == "header":
        return webhook.header(match["name"].lower())
    if match["kind"] == "query":
        return webhook.query(match["name"])
    value = _field(tree, match["name"])
    if isinstance(value, bool):
        return "true" if value else "false"
    # Objects, arrays and null name nothing.
    return str(value) if isinstance(value, str | int | float) else None


def _field(tree: JSON, path: str) -> JSON:
    for name in path.split("."):
        if isinstance(tree, dict):
            tree = tree.get(name)
        elif isinstance(tree, list) and name.isascii() and name.isdigit():
            tree = tree[int(name)] if len(name) < 10 and int(name) < len(tree) else None
        else:
            return None
    return tree


def _raw_field(body: bytes, path: str) -> RawJSON | None:
    """The text of a field, as it was written."""
    raw = msgspec.Raw(body)
    try:
        for name in path.split("."):
            if bytes(raw).lstrip()[:1] == b"[":
                items = msgspec.json.decode(raw, type=list[msgspec.Raw])
                raw = items[int(name)]
            else:
                raw = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])[name]
    except (KeyError, IndexError, ValueError):
        return None
    return raw
