"""Paths into an event: `$.payload.lines[0].sku`, as mappings of relays have them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, TypeAlias

from headrace.core.errors import Invalid

EVENT_FIELDS: Final = (
    "id", "topic", "type", "key", "partition", "position", "emitted_at", "appended_at", "producer", "payload", "headers",
)  # fmt: skip
_STEP: Final = re.compile(r"\.([A-Za-z_][A-Za-z0-9_-]*)|\[(\d{1,6})\]|\[\"((?:[^\"\\]|\\.)*)\"\]")

Step: TypeAlias = str | int


@dataclass(frozen=True)
class EventPath:
    """A place in an event."""

    root: str
    """A field of the event."""
    steps: tuple[Step, ...]


def parse_event_path(text: str) -> EventPath:
    """The path that a text stands for. Raises Invalid."""
    match = re.match(r"\$\.([a-z_]+)", text)
    if match is None or match[1] not in EVENT_FIELDS:
        roots = ", ".join("$." + root for root in EVENT_FIELDS)
        raise Invalid(f"{text!r} is not a path; it starts with {roots}; write $$ for a text that starts with $")
    root, rest = match[1], text[match.end() :]
    steps: list[Step] = []
    end = 0
    while end < len(rest):
        step = _STEP.match(rest, end)
        if step is None:
            raise Invalid(
                f'{text!r} is not a path at {rest[end:]!r}; write .name, [0] or ["any name"], and $$ for a text that starts with $'
            )
        name, index, quoted = step.groups()
        steps.append(int(index) if index is not None else name if name is not None else re.sub(r"\\(.)", r"\1", quoted))
        end = step.end()
    if steps and root not in ("payload", "headers"):
        raise Invalid(f"{text!r} goes into {root}, which has no fields")
    return EventPath(root, tuple(steps))
