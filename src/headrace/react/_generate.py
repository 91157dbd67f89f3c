"""Generates the functions that match events with rules: one per topic, and one for the inline rules of all topics.

Owns: headrace.match_<topic_id> and headrace.react_inline. Promises: their text is made of our own trees and names only; it is
written again only when the set of shapes has changed, since new constants are rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg import sql

from headrace.db import query
from headrace.lang.condition import Condition, Field, field_to_postgres, parse, shape_to_postgres


@dataclass(frozen=True)
class Shape:
    """A shape in force: its id, its topic, and the condition of one of the versions that have it."""

    shape_id: int
    topic_id: int
    canonical: str

    @property
    def condition(self) -> Condition:
        return parse(self.canonical)


def match_name(topic_id: int) -> str:
    """The name of a topic's match function."""
    return f"match_{topic_id}"


def match_body(topic_id: int, shapes: Sequence[Shape]) -> str:
    """The body of a topic's match function."""
    columns = _columns(shapes)
    branches = [_branch("react/match_branch", shape, columns) for shape in shapes]
    return _filled(
        "react/match_body",
        fields=_extractions(columns),
        log=sql.Identifier(f"log_{topic_id}"),
        branches=sql.SQL("    union all\n    ").join(branches),
    ).as_string(None)


def inline_body(shapes: Sequence[Shape]) -> str:
    """The body of the trigger function of the inline rules."""
    columns = _columns(shapes)
    branches = [_branch("react/inline_branch", shape, columns) for shape in shapes]
    topics = sorted({shape.topic_id for shape in shapes})
    return _filled(
        "react/inline_body",
        fields=_extractions(columns),
        topics=sql.SQL(", ").join(sql.Literal(topic_id) for topic_id in topics),
        branches=sql.SQL("            union all\n            ").join(branches),
    ).as_string(None)


def match_function(topic_id: int, body: str) -> sql.Composed:
    """The statement that creates a topic's match function."""
    return _filled("react/match_function", function=sql.Identifier(match_name(topic_id)), body=sql.Literal(body))


def inline_function(body: str) -> sql.Composed:
    """The statement that creates the trigger function of the inline rules."""
    return _filled("react/inline_function", body=sql.Literal(body))


def _columns(shapes: Sequence[Shape]) -> dict[Field, str]:
    fields = dict.fromkeys(field for shape in shapes for field in shape.condition.fields)
    return {field: f"e.f{number}" for number, field in enumerate(fields, 1)}


def _extractions(columns: dict[Field, str]) -> sql.Composable:
    """Each field as a column, with a comma before it."""
    return sql.Composed(
        [
            sql.SQL(", {} as {}").format(_printed(field_to_postgres(field)), sql.Identifier(name.removeprefix("e.")))
            for field, name in columns.items()
        ]
    )


def _branch(template: str, shape: Shape, columns: dict[Field, str]) -> sql.Composed:
    printed = shape_to_postgres(shape.condition, columns, "m")
    return _filled(
        template,
        shape_id=sql.Literal(shape.shape_id),
        topic_id=sql.Literal(shape.topic_id),
        key=_printed(printed.key or "''"),
        rest=_printed(printed.rest or "true"),
    )


def _filled(template: str, **parts: sql.Composable) -> sql.Composed:
    return sql.SQL(query(template)).format(**parts)


def _printed(text: str) -> sql.SQL:
    """SQL that the condition language has printed from its tree."""
    return sql.SQL(text)
