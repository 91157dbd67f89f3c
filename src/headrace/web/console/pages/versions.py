"""Versions: what each version of a rule changed, and the differences of two texts by lines or words."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import unified_diff

from headrace.core import encode
from headrace.rules import RuleVersion
from headrace.web.console.tables import Column, Table, to_row

LINES_MAX = 2_000
"""Lines compared; difflib takes quadratic time at worst."""
FIELDS = ("topic", "event_type", "condition", "action", "priority", "delay_s", "timing", "active")
"""What a version can change, in the order in which it is shown."""
DIFF_WORDS_MAX = 3_000
"""Longer texts are shown as removed and added: comparing them would take too long."""


@dataclass(frozen=True)
class DiffLine:
    """A line with `+` (new), `-` (old), `@` (a gap) or a space (both)."""

    sign: str
    text: str


def diff_lines(before: str, after: str) -> list[DiffLine]:
    """What differs, with three lines around; empty where nothing does."""
    lines = unified_diff(before.splitlines()[:LINES_MAX], after.splitlines()[:LINES_MAX], lineterm="", n=3)
    return [DiffLine(line[0], line[1:]) for line in lines if not line.startswith(("---", "+++"))]


DiffPart = tuple[str, str]
"""`-`, `+` or a space, and the text."""


@dataclass(frozen=True)
class FieldChange:
    """A field that changed, with the differences of its text."""

    name: str
    parts: list[DiffPart]


@dataclass(frozen=True)
class VersionText:
    """A version, and what it changed compared with the one before."""

    version: int
    written_at: datetime
    written_by: str
    status: str
    error: str | None
    positions: str
    headline: str
    changes: list[FieldChange]


def describe_versions(versions: Sequence[RuleVersion]) -> list[VersionText]:
    """The versions, newest first."""
    result = []
    before: RuleVersion | None = None
    for version in versions:
        # A rule that was dropped and created again starts afresh.
        is_new = before is None or before.rule_id != version.rule_id
        changes = [] if is_new or before is None or version.dropped else compare(_fields(before), _fields(version))
        headline = "dropped" if version.dropped else "created" if is_new else "changed" if changes else "written again"
        result.append(
            VersionText(
                version.version,
                version.written_at,
                version.written_by,
                version.status,
                version.error,
                _positions(version),
                headline,
                [FieldChange("condition", [(" ", version.condition)])] if is_new and not version.dropped else changes,
            )
        )
        before = version
    return result[::-1]


def version_table(versions: Sequence[RuleVersion]) -> Table:
    """The versions for their export, newest first."""
    rows = [to_row(version) for version in reversed(versions)]
    return Table("versions", [Column(name) for name in ("version", *FIELDS, "status", "written_at", "written_by")], rows)


def _fields(version: RuleVersion) -> dict[str, object]:
    return {name: getattr(version, name) for name in FIELDS}


def compare(before: Mapping[str, object], after: Mapping[str, object], names: Sequence[str] = FIELDS) -> list[FieldChange]:
    """The fields that differ."""
    return [
        FieldChange(name, diff_words(_text(before[name]), _text(after[name]))) for name in names if before[name] != after[name]
    ]


def _text(value: object) -> str:
    return encode(value) if isinstance(value, Mapping) else str(value)


def diff_words(before: str, after: str) -> list[DiffPart]:
    """The differences of two texts, word by word."""
    old, new = re.findall(r"\s+|\w+|[^\w\s]", before), re.findall(r"\s+|\w+|[^\w\s]", after)
    if len(old) + len(new) > DIFF_WORDS_MAX:
        return [("-", before), ("+", after)]
    parts: list[DiffPart] = []
    for tag, old_from, old_to, new_from, new_to in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            parts.append((" ", "".join(old[old_from:old_to])))
            continue
        parts += [("-", "".join(old[old_from:old_to]))] if old_to > old_from else []
        parts += [("+", "".join(new[new_from:new_to]))] if new_to > new_from else []
    return parts


def _positions(version: RuleVersion) -> str:
    if version.since_position is None:
        return "never active"
    until = "now" if version.until_position is None else version.until_position
    return f"active for positions {version.since_position} to {until}"
