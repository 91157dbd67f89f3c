"""Paths and templates: how mappings of relays and hooks, names of places and masks name a part of an event or request.

A path is a series of steps: `payload.lines[0].sku`, `headers["any name"]`. A number after a dot counts into an array, too.

A template is text with placeholders in braces: a root, with a name or path after a colon where the root has such, and a default after a
bar: `{topic}`, `{header:x-github-event}`, `{body:order.id|none}`. `{{` and `}}` stand for braces."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeAlias

from headrace.core.errors import Invalid
from headrace.core.json_text import JSON

EVENT_FIELDS: Final = (
    "id", "topic", "type", "key", "partition", "position", "emitted_at", "appended_at", "producer", "payload", "headers",
)  # fmt: skip
INDEX_DIGITS_MAX: Final = 6
_STEP: Final = re.compile(r"\.([^\s.\[\]{}|\"]+)|\[(\d{1,6})\]|\[\"((?:[^\"\\]|\\.)*)\"\]")
_PLACEHOLDER: Final = re.compile(r"\{(?P<root>[a-z]+)(?::(?P<argument>[^{}|]+))?(?:\|(?P<default>[^{}|]*))?\}")

Step: TypeAlias = str | int


@lru_cache(1024)
def parse_path(text: str) -> tuple[Step, ...]:
    """The steps of a path. Raises Invalid."""
    return tuple(_steps(text if text.startswith("[") else f".{text}", text))


def _steps(rest: str, text: str) -> Iterator[Step]:
    end = 0
    while end < len(rest):
        step = _STEP.match(rest, end)
        if step is None:
            raise Invalid(f'{text!r} is not a path at {rest[end:]!r}; write name.name, name[0] or ["any name"]')
        name, index, quoted = step.groups()
        yield int(index) if index is not None else name if name is not None else re.sub(r"\\(.)", r"\1", quoted)
        end = step.end()


def follow_path(value: JSON, steps: Sequence[Step]) -> JSON:
    """The value at a path; None where it is missing."""
    for step in steps:
        if isinstance(value, dict):
            value = value.get(step) if isinstance(step, str) else None
        elif isinstance(value, list) and (index := array_index(step)) is not None:
            value = value[index] if index < len(value) else None
        else:
            return None
    return value


def array_index(step: Step) -> int | None:
    """A step as a number that counts into an array; None if it is a name."""
    if isinstance(step, int):
        return step
    return int(step) if step.isascii() and step.isdigit() and len(step) <= INDEX_DIGITS_MAX else None


@dataclass(frozen=True)
class EventPath:
    """A field of an event, and a path into it."""

    root: str
    """A field of the event."""
    steps: tuple[Step, ...]


def parse_event_path(text: str) -> EventPath:
    """The path that a text such as `$.payload.total` stands for. Raises Invalid."""
    match = re.match(r"\$\.([a-z_]+)", text)
    if match is None or match[1] not in EVENT_FIELDS:
        roots = ", ".join("$." + root for root in EVENT_FIELDS)
        raise Invalid(f"{text!r} is not a path; it starts with {roots}; write $$ for a text that starts with $")
    steps = tuple(_steps(text[match.end() :], text))
    if steps and match[1] not in ("payload", "headers"):
        raise Invalid(f"{text!r} goes into {match[1]}, which has no fields")
    return EventPath(match[1], steps)


@dataclass(frozen=True)
class Placeholder:
    """A part of a template that a value replaces."""

    root: str
    argument: str | None = None
    """The name or path after the colon."""
    default: str | None = None


@dataclass(frozen=True)
class Template:
    """A text with placeholders."""

    parts: tuple[str | Placeholder, ...]

    @property
    def placeholders(self) -> tuple[Placeholder, ...]:
        return tuple(part for part in self.parts if isinstance(part, Placeholder))

    def fill(self, value: Callable[[Placeholder], str | None]) -> str | None:
        """The text with its values or defaults; None if one has neither."""
        texts: list[str] = []
        for part in self.parts:
            text = part if isinstance(part, str) else value(part)
            if text is None:
                text = part.default if isinstance(part, Placeholder) else None
            if text is None:
                return None
            texts.append(text)
        return "".join(texts)


@lru_cache(1024)
def parse_template(text: str, placeholders: Collection[str]) -> Template:
    """The template that a text stands for. `placeholders` are those that it may have, such as `topic`, `header:name` or `body:path`.
    Raises Invalid."""
    forms = {form.partition(":")[0] + (":" if ":" in form else "") for form in placeholders}
    parts: list[str | Placeholder] = []
    end = 0
    while end < len(text):
        if text[end : end + 2] in ("{{", "}}"):
            parts.append(text[end])
            end += 2
        elif text[end] in "{}":
            match = _PLACEHOLDER.match(text, end)
            if match is None or match["root"] + (":" if match["argument"] else "") not in forms:
                known = ", ".join(f"{{{form}}}" for form in placeholders)
                if text[end] == "}" or "}" not in text[end:]:
                    raise Invalid(f"has a brace without its partner; it may contain {known}")
                raise Invalid(f"may contain {known} and no other braces; {{{{ and }}}} stand for braces")
            if match["argument"] and f"{match['root']}:path" in placeholders:
                parse_path(match["argument"])
            parts.append(Placeholder(**match.groupdict()))
            end = match.end()
        else:
            following = min((found for brace in "{}" if (found := text.find(brace, end)) >= 0), default=len(text))
            parts.append(text[end:following])
            end = following
    return Template(tuple(parts))
