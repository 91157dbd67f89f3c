"""Inference: a schema that accepts all payloads of a sample, as a proposal for somebody who knows the events.

Promises: every payload of the sample keeps the schema; the same sample in any order gives the same schema. Nothing is guessed that a
sample cannot show: no ranges of numbers, no lengths, no forbidden fields.

Not by genson: it infers types, required fields and items, and leaves formats, enums and maps of names to values to strategies of our own,
which would be most of this module."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from headrace.definitions.schemas.value_set import JsonValue, json_type

ENUM_VALUES_MAX: Final = 12
ENUM_REPEATS_MIN: Final = 4
"""A text is taken for one of a few if each was there this often on average …"""
ENUM_TEXTS_MIN: Final = 20
"""… among at least this many."""
_word: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,39}")
"""What a value of an enum looks like: a word without spaces or slashes."""
MAP_KEYS_MIN: Final = 30
"""An object with more keys than this, none of which is in half of its instances, is a map of names to values."""
_TYPES: Final = ("object", "array", "string", "integer", "number", "boolean", "null")
_moment: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")
_uuid: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def infer_schema(payloads: Iterable[JsonValue]) -> dict[str, JsonValue]:
    """A schema that accepts all of the payloads."""
    observed = _Observed()
    for payload in payloads:
        observed.add(payload)
    return observed.schema()


@dataclass
class _Observed:
    """What was seen at one place of the payloads."""

    types: dict[str, int] = field(default_factory=dict)
    texts: dict[str, int] = field(default_factory=dict)
    has_many_texts: bool = False
    formats: set[str] | None = None
    properties: dict[str, _Observed] = field(default_factory=dict)
    items: _Observed | None = None

    @property
    def count(self) -> int:
        return sum(self.types.values())

    def add(self, value: JsonValue) -> None:
        name = json_type(value)
        if name == "number" and isinstance(value, int):
            name = "integer"
        self.types[name] = self.types.get(name, 0) + 1
        if isinstance(value, str):
            self._add_text(value)
        elif isinstance(value, list):
            self.items = self.items or _Observed()
            for item in value:
                self.items.add(item)
        elif isinstance(value, dict):
            for key, member in value.items():
                self.properties.setdefault(key, _Observed()).add(member)

    def _add_text(self, text: str) -> None:
        formats = {name for name, fits in (("date-time", is_moment), ("uuid", _uuid.fullmatch)) if fits(text)}
        self.formats = formats if self.formats is None else self.formats & formats
        if not self.has_many_texts:
            self.texts[text] = self.texts.get(text, 0) + 1
            self.has_many_texts = len(self.texts) > ENUM_VALUES_MAX or not _word.fullmatch(text)

    def schema(self) -> dict[str, JsonValue]:
        names: list[JsonValue] = [
            name for name in _TYPES if name in self.types and not (name == "integer" and "number" in self.types)
        ]
        if not names:
            return {}
        if enum := self._enum(names):
            return {"enum": enum}
        schema: dict[str, JsonValue] = {"type": names[0] if len(names) == 1 else names}
        if self.formats:
            schema["format"] = min(self.formats)
        if "object" in self.types:
            schema |= self._object()
        if self.items is not None and self.items.count:
            schema["items"] = self.items.schema()
        return schema

    def _enum(self, names: list[JsonValue]) -> list[JsonValue]:
        if not set(names) <= {"string", "null"} or self.has_many_texts or self.formats:
            return []
        total = sum(self.texts.values())
        if total < max(ENUM_TEXTS_MIN, ENUM_REPEATS_MIN * len(self.texts)):
            return []
        nulls: list[JsonValue] = [None] if "null" in self.types else []
        return [*sorted(self.texts), *nulls]

    def _object(self) -> dict[str, JsonValue]:
        count = self.types["object"]
        if len(self.properties) >= MAP_KEYS_MIN and all(2 * member.count < count for member in self.properties.values()):
            values = _Observed()
            for member in self.properties.values():
                values.merge(member)
            return {"additionalProperties": values.schema()}
        schema: dict[str, JsonValue] = {"properties": {name: self.properties[name].schema() for name in sorted(self.properties)}}
        required: list[JsonValue] = [name for name in sorted(self.properties) if self.properties[name].count == count]
        return schema | ({"required": required} if required else {})

    def merge(self, other: _Observed) -> None:
        for name, count in other.types.items():
            self.types[name] = self.types.get(name, 0) + count
        if other.formats is not None:
            self.formats = other.formats if self.formats is None else self.formats & other.formats
        for text, count in other.texts.items():
            self.texts[text] = self.texts.get(text, 0) + count
        self.has_many_texts |= other.has_many_texts or len(self.texts) > ENUM_VALUES_MAX
        for name, member in other.properties.items():
            self.properties.setdefault(name, _Observed()).merge(member)
        if other.items is not None:
            self.items = self.items or _Observed()
            self.items.merge(other.items)


def is_moment(text: str) -> bool:
    """Is it an RFC 3339 timestamp with an offset?"""
    if not _moment.fullmatch(text):
        return False
    try:
        datetime.fromisoformat(re.sub(r"(\.\d{1,6})\d*", r"\1", text.upper()))
    except ValueError:
        return False
    return True
