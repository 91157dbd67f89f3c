"""Versions: what each version of a definition changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

from headrace.definitions import DefinitionKind, Field
from headrace.web.console.texts import DiffPart, diff_words

ToText: TypeAlias = Callable[[Field, Any], str]
"""A value of a field as a form shows it."""


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
    status: str | None
    error: str | None
    positions: str | None
    headline: str
    changes: list[FieldChange]


def compare(kind: DefinitionKind[Any, Any, Any], to_text: ToText, before: Any, after: Any) -> list[FieldChange]:
    """The fields that differ."""
    return [
        FieldChange(field.title, diff_words(to_text(field, old), to_text(field, new)))
        for field in kind.fields[1:]
        for old, new in [(getattr(before, field.name), getattr(after, field.name))]
        if old != new
    ]


def describe_versions(kind: DefinitionKind[Any, Any, Any], to_text: ToText, versions: Sequence[Any]) -> list[VersionText]:
    """The versions, newest first. A definition that was dropped and created again starts afresh."""
    texts: list[VersionText] = []
    before = None
    for version in versions:
        is_new = before is None or getattr(before, f"{kind.noun}_id") != getattr(version, f"{kind.noun}_id")
        changes = [] if is_new or version.dropped else compare(kind, to_text, before, version)
        headline = "dropped" if version.dropped else "created" if is_new else "changed" if changes else "written again"
        if is_new and not version.dropped:
            changes = [FieldChange(field.title, [(" ", getattr(version, field.name))]) for field in kind.fields if field.is_long]
        status, error = getattr(version, "status", None), getattr(version, "error", None)
        written = (version.version, version.written_at, version.written_by)
        texts.append(VersionText(*written, status, error, _positions(version), headline, changes))
        before = version
    return texts[::-1]


def _positions(version: Any) -> str | None:
    if not hasattr(version, "since_position"):
        return None
    if version.since_position is None:
        return "never active"
    until = "now" if version.until_position is None else version.until_position
    return f"active for positions {version.since_position} to {until}"
