"""Changes: what a command changed, before and after, on every shard."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.cli.output import format_value, to_json
from headrace.cli.session import Session
from headrace.db import Target

Fields = Mapping[str, object]


@dataclass
class Changes:
    """Collects the fields that differ, shard by shard, and prints them as `field: before → after`."""

    session: Session
    _by_shard: dict[str, dict[str, tuple[object, object]]] = field(default_factory=dict)

    def add(self, target: Target, before: Fields, after: Fields) -> None:
        """Compares the fields of an object of one shard."""
        differing = {name: (before.get(name), value) for name, value in after.items() if before.get(name) != value}
        self._by_shard[target.name] = differing

    def done(self, message: str, result: Mapping[str, object]) -> None:
        """Ends the command: a sentence and a line per change, or JSON with `before` and `after`; by shard if they differ."""
        lines = {place: _lines(fields) for place, fields in self._by_shard.items()}
        is_same = len({tuple(shard_lines) for shard_lines in lines.values()}) == 1
        if is_same:
            texts = [f"  {line}" for line in next(iter(lines.values()))]
        else:
            texts = [f"  {place}: {line}" for place, shard_lines in lines.items() for line in shard_lines]
        before, after = (self._values(side, is_same=is_same) for side in (0, 1))
        self.session.print({**result, "before": before, "after": after}, message, *texts)

    def _values(self, side: int, *, is_same: bool) -> dict[str, object]:
        by_shard: dict[str, dict[str, object]] = {
            place: {name: pair[side] for name, pair in fields.items()} for place, fields in self._by_shard.items()
        }
        return next(iter(by_shard.values())) if is_same else {**by_shard}


def _lines(fields: Mapping[str, tuple[object, object]]) -> list[str]:
    lines = [f"{name.replace('_', ' ')}: {_text(before)} → {_text(after)}" for name, (before, after) in fields.items()]
    return lines or ["nothing differs from before"]


def _text(value: object) -> str:
    return to_json(value) if isinstance(value, dict | list) else format_value(value)
