"""Masks: fields of payloads that only some roles see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from headrace.core import JSON, Invalid, parse_path

MASK = "•••"
IN_AUDIT = (("before", "payload"), ("after", "payload"))
"""Where an event of the audit topic has the payload that was changed."""
QUOTED = ("payload",)
"""Where the output of a correlator quotes the payload of an event."""
CAPTURED = ("captured", "*")
"""What a pattern has kept of earlier events, in the payload of an output: a copy of any field, under another name."""


def hidden_fields(masks: Mapping[str, Sequence[str]], role: str | None) -> tuple[tuple[str, ...], ...]:
    """The paths that a role does not see, each as a tuple of patterns of field names: in a payload, in the output of a
    correlator that quotes it, and in the audit of its change.

    Who does not see all fields sees no captured value either."""
    paths = [mask_path(path) for path, roles in masks.items() if role not in roles]
    if paths:
        paths.append(CAPTURED)
    return tuple(place + quotation + path for path in paths for place in ((), *IN_AUDIT) for quotation in ((), QUOTED))


def mask_path(text: str) -> tuple[str, ...]:
    """The patterns of field names in a mask such as `card.number`, `*.email` or `**.iban`. Raises Invalid."""
    steps = parse_path(text)
    if any(isinstance(step, int) for step in steps):
        raise Invalid(f"mask {text!r}: lists are passed through, so name no place in one")
    return tuple(map(str, steps))


def mask_payload(payload: JSON, hidden: Sequence[tuple[str, ...]]) -> JSON:
    """A payload with ••• in place of the hidden fields. Lists are passed through: `items.price` hides the price of every item.

    `*` in a path stands for any field, `**` at its start for any depth."""
    if not hidden:
        return payload
    if isinstance(payload, Mapping):
        return {name: _mask_field(name, value, hidden) for name, value in payload.items()}
    if isinstance(payload, Sequence) and not isinstance(payload, str):
        return [mask_payload(value, hidden) for value in payload]
    return payload


def is_hidden(path: Sequence[str], hidden: Sequence[tuple[str, ...]]) -> bool:
    """True if the value at a path of field names is hidden, lies in a hidden one, or has one inside that is named by its whole path."""
    value: JSON = None
    for name in reversed(path):
        value = {name: value}
    if mask_payload(value, hidden) != value:
        return True
    longer = [names for names in hidden if names[0] != "**" and len(names) > len(path)]
    return any(all(map(fnmatchcase, path, names)) for names in longer)


def _mask_field(name: str, value: JSON, hidden: Sequence[tuple[str, ...]]) -> JSON:
    below: list[tuple[str, ...]] = []
    for path in hidden:
        if path[0] == "**":
            below.append(path)
            path = path[1:]
        if path and fnmatchcase(name, path[0]):
            if len(path) == 1:
                return MASK
            below.append(path[1:])
    return mask_payload(value, below)
