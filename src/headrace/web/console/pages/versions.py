"""Versions: what each version of a definition changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from headrace.definitions import DefinitionKind, Field
from headrace.web.console.tables import Row
from headrace.web.console.texts import diff_words

ToText: TypeAlias = Callable[[Field, Any], str]
"""A value of a field as a form shows it."""


def compare(kind: DefinitionKind[Any, Any, Any], to_text: ToText, before: Any, after: Any) -> list[Row]:
    """The fields that differ, each with the differences of its text."""
    return [
        {"name": field.label, "parts": diff_words(to_text(field, old), to_text(field, new))}
        for field in kind.fields[1:]
        for old, new in [(getattr(before, field.name), getattr(after, field.name))]
        if old != new
    ]


def describe_versions(kind: DefinitionKind[Any, Any, Any], to_text: ToText, versions: Sequence[Any]) -> list[Row]:
    """The versions, newest first, each with what it changed compared with the one before. A definition that was dropped and created again starts afresh."""
    texts: list[Row] = []
    before = None
    for version in versions:
        is_new = before is None or getattr(before, f"{kind.noun}_id") != getattr(version, f"{kind.noun}_id")
        changes = [] if is_new or version.dropped else compare(kind, to_text, before, version)
        headline = "dropped" if version.dropped else "created" if is_new else "changed" if changes else "written again"
        if is_new and not version.dropped:
            long = [field for field in kind.fields if field.is_long]
            changes = [{"name": field.label, "parts": [(" ", getattr(version, field.name))]} for field in long]
        own = {name: getattr(version, name, None) for name in ("version", "written_at", "written_by", "status", "error")}
        texts.append({**own, "positions": _positions(version), "headline": headline, "changes": changes})
        before = version
    return texts[::-1]


def _positions(version: Any) -> str | None:
    if not hasattr(version, "since_position"):
        return None
    if version.since_position is None:
        return "never active"
    until = "now" if version.until_position is None else version.until_position
    return f"active for positions {version.since_position} to {until}"
