"""Generates the functions that match events with rules: one per topic, and one for the inline rules of all topics.

Owns: headrace_internal.match_<topic_id> and headrace_internal.react_inline. Promises: their text is made of our own trees and names only. Rules of
a shape that many share are rows of one join, so that new ones do not write the function again; rules of a rare shape stand in the
function one by one, since comparing is cheaper than looking up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

from psycopg import sql

from headrace.db import query
from headrace.lang.condition import Condition, Field, field_to_postgres, parse, shape_to_postgres, to_postgres

SHARED_MIN = 8
"""From so many rules on a shape is a join."""
DIRECT_MAX = 500
"""So many rules at most stand in a function one by one; what is beyond is joined."""


@dataclass(frozen=True)
class Member:
    """A version in force, and the shape it has."""

    shape_id: int
    topic_id: int
    version_id: int
    since_position: int
    event_type: str
    canonical: str

    @property
    def condition(self) -> Condition:
        return parse(self.canonical)


def match_name(topic_id: int) -> str:
    """The name of a topic's match function."""
    return f"match_{topic_id}"


def match_body(topic_id: int, members: Sequence[Member]) -> str:
    """The body of a topic's match function. Members: of every shape SHARED_MIN, or all it has."""

    def guard(member: Member) -> sql.Composed:
        return sql.SQL("e.type = {}").format(sql.Literal(member.event_type))

    columns = _columns(members)
    branches = _branches("match", members, columns, guard, since=True)
    return _filled(
        "rules/match_body",
        fields=_extractions(columns),
        log=sql.Identifier(f"log_{topic_id}"),
        branches=sql.SQL("    union all\n    ").join(branches),
    ).as_string(None)


def inline_body(members: Sequence[Member]) -> str:
    """The body of the trigger function of the inline rules."""

    def guard(member: Member) -> sql.Composed:
        return sql.SQL("e.topic_id = {} and e.type = {}").format(sql.Literal(member.topic_id), sql.Literal(member.event_type))

    columns = _columns(members)
    branches = _branches("inline", members, columns, guard, since=False)
    topics = sorted({member.topic_id for member in members})
    return _filled(
        "rules/inline_body",
        fields=_extractions(columns),
        topics=sql.SQL(", ").join(sql.Literal(topic_id) for topic_id in topics),
        branches=sql.SQL("            union all\n            ").join(branches),
    ).as_string(None)


def match_function(topic_id: int, body: str) -> sql.Composed:
    """The statement that creates a topic's match function."""
    return _filled("rules/match_function", function=sql.Identifier(match_name(topic_id)), body=sql.Literal(body))


def inline_function(body: str) -> sql.Composed:
    """The statement that creates the trigger function of the inline rules."""
    return _filled("rules/inline_function", body=sql.Literal(body))


def _columns(members: Sequence[Member]) -> dict[Field, str]:
    fields = dict.fromkeys(field for member in members for field in member.condition.fields)
    return {field: f"e.f{number}" for number, field in enumerate(fields, 1)}


def _extractions(columns: dict[Field, str]) -> sql.Composable:
    """Each field as a column, with a comma before it."""
    return sql.Composed(
        [
            sql.SQL(", {} as {}").format(_printed(field_to_postgres(field)), sql.Identifier(name.removeprefix("e.")))
            for field, name in columns.items()
        ]
    )


def _branches(
    kind: str, members: Sequence[Member], columns: dict[Field, str], guard: Callable[[Member], sql.Composed], *, since: bool
) -> list[sql.Composed]:
    """One join per shape that many share, and one list of all others."""
    shared: list[Member] = []
    direct: list[Member] = []
    for _, group in groupby(members, key=attrgetter("shape_id")):
        alike = list(group)
        if len(alike) >= SHARED_MIN or len(direct) + len(alike) > DIRECT_MAX:
            shared.append(alike[0])
        else:
            direct.extend(alike)
    branches = [_join(f"rules/{kind}_join", member, columns) for member in shared]
    if direct:
        branches.append(_filled(f"rules/{kind}_direct", cases=_cases(direct, columns, guard, since=since)))
    return branches


def _join(template: str, member: Member, columns: dict[Field, str]) -> sql.Composed:
    printed = shape_to_postgres(member.condition, columns, "m")
    return _filled(
        template,
        shape_id=sql.Literal(member.shape_id),
        topic_id=sql.Literal(member.topic_id),
        key=_printed(printed.key or "''"),
        rest=_printed(printed.rest or "true"),
    )


def _cases(
    direct: Sequence[Member], columns: dict[Field, str], guard: Callable[[Member], sql.Composed], *, since: bool
) -> sql.Composed:
    """`when <topic and type> then array[case when <condition> then <version> end, …]` for every topic and type."""
    by_type = attrgetter("topic_id", "event_type")
    cases: list[sql.Composed] = []
    for _, group in groupby(sorted(direct, key=lambda member: (*by_type(member), member.version_id)), key=by_type):
        alike = list(group)
        answers = sql.SQL(", ").join(_answer(member, columns, since=since) for member in alike)
        cases.append(sql.SQL("when {} then array[{}]").format(guard(alike[0]), answers))
    return sql.SQL(" ").join(cases)


def _answer(member: Member, columns: dict[Field, str], *, since: bool) -> sql.Composed:
    condition = _printed(to_postgres(member.condition, columns))
    begun = sql.SQL("e.position >= {} and ").format(sql.Literal(member.since_position)) if since else sql.SQL("")
    return sql.SQL("case when {}{} then {}::bigint end").format(begun, condition, sql.Literal(member.version_id))


def _filled(template: str, **parts: sql.Composable) -> sql.Composed:
    return sql.SQL(query(template)).format(**parts)


def _printed(text: str) -> sql.SQL:
    """SQL that the condition language has printed from its tree."""
    return sql.SQL(text)
