"""Generates the SQL functions that evaluate rules: one per topic, and one for the inline rules of all topics.

Owns: headrace_internal.match_<topic_id> and headrace_internal.react_inline. Promises: their text consists of our own trees and
names only: `sql.SQL` gets what the condition language has printed. Rules of a shape that many share are rows of one join, so that
a new one does not change the function; rules of a rare shape are compared one by one in the function, which is cheaper than a
lookup."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter

from psycopg import sql

from headrace.db import query
from headrace.lang.condition import Condition, Field, field_to_postgres, parse, shape_to_postgres, to_postgres

SHARED_MIN = 8
"""A shape with this many rules is a join."""
DIRECT_MAX = 500
"""At most this many rules are compared one by one in a function; the others are joined."""

Columns = dict[Field, str]


@dataclass(frozen=True)
class ActiveVersion:
    """An active version of a rule, and its shape."""

    shape_id: int
    topic_id: int
    version_id: int
    since_position: int
    event_type: str
    canonical: str

    @property
    def condition(self) -> Condition:
        return parse(self.canonical)


def separate_unreadable(versions: Sequence[ActiveVersion]) -> tuple[list[ActiveVersion], dict[int, str]]:
    """The versions whose condition can be read, and the errors of the others: somebody has written into our tables, and the rules of
    other topics must not suffer. All rules of a shape share its text, so a readable one stands for them where they are joined."""
    readable: list[ActiveVersion] = []
    errors: dict[int, str] = {}
    for _, group in groupby(versions, key=attrgetter("shape_id")):
        of_shape = list(group)
        unreadable = {version.version_id: error for version in of_shape if (error := _error(version))}
        own = [version for version in of_shape if version.version_id not in unreadable]
        if unreadable and own and len(of_shape) >= SHARED_MIN:
            own = [replace(own[0], version_id=version.version_id) for version in of_shape]
        readable += own
        errors |= unreadable
    return readable, errors


def _error(version: ActiveVersion) -> str | None:
    try:
        parse(version.canonical)
    except Exception as error:  # noqa: BLE001 - whatever it is, it concerns this rule only
        return f"its condition cannot be read: {error}"
    return None


def match_name(topic_id: int) -> str:
    """The name of a topic's match function."""
    return f"match_{topic_id}"


def match_body(topic_id: int, versions: Sequence[ActiveVersion]) -> str:
    """The body of a topic's match function. Versions: SHARED_MIN of every shape, or all it has."""
    columns = _columns(versions)
    return _fill(
        "rules/match_body",
        fields=_extractions(columns),
        log=sql.Identifier(f"log_{topic_id}"),
        branches=sql.SQL("    union all\n    ").join(_branches("match", versions, columns)),
    ).as_string(None)


def inline_body(versions: Sequence[ActiveVersion]) -> str:
    """The body of the trigger function of the inline rules."""
    columns = _columns(versions)
    topics = sorted({version.topic_id for version in versions})
    return _fill(
        "rules/inline_body",
        fields=_extractions(columns),
        topics=sql.SQL(", ").join(sql.Literal(topic_id) for topic_id in topics),
        branches=sql.SQL("            union all\n            ").join(_branches("inline", versions, columns)),
    ).as_string(None)


def match_function(topic_id: int, body: str) -> sql.Composed:
    """The statement that creates a topic's match function."""
    return _fill("rules/match_function", function=sql.Identifier(match_name(topic_id)), body=sql.Literal(body))


def inline_function(body: str) -> sql.Composed:
    """The statement that creates the trigger function of the inline rules."""
    return _fill("rules/inline_function", body=sql.Literal(body))


def _columns(versions: Iterable[ActiveVersion]) -> Columns:
    fields = dict.fromkeys(field for version in versions for field in version.condition.fields)
    return {field: f"e.f{number}" for number, field in enumerate(fields, 1)}


def _extractions(columns: Columns) -> sql.Composable:
    """Each field as a column, with a comma before it."""
    return sql.Composed(
        [
            sql.SQL(", {} as {}").format(sql.SQL(field_to_postgres(field)), sql.Identifier(name.removeprefix("e.")))
            for field, name in columns.items()
        ]
    )


def _branches(timing: str, versions: Sequence[ActiveVersion], columns: Columns) -> list[sql.Composed]:
    """One join per shape that many rules share, and one list of all other rules."""
    shared: list[ActiveVersion] = []
    direct: list[ActiveVersion] = []
    for _, group in groupby(versions, key=attrgetter("shape_id")):
        of_shape = list(group)
        if len(of_shape) >= SHARED_MIN or len(direct) + len(of_shape) > DIRECT_MAX:
            shared.append(of_shape[0])
        else:
            direct.extend(of_shape)
    branches = [_join(f"rules/{timing}_join", version, columns) for version in shared]
    if direct:
        branches.append(_fill(f"rules/{timing}_direct", cases=_cases(direct, columns, inline=timing == "inline")))
    return branches


def _join(template: str, version: ActiveVersion, columns: Columns) -> sql.Composed:
    shape = shape_to_postgres(version.condition, columns, "m")
    return _fill(
        template,
        shape_id=sql.Literal(version.shape_id),
        topic_id=sql.Literal(version.topic_id),
        key=sql.SQL(shape.access_key or "''"),
        rest=sql.SQL(shape.residual or "true"),
    )


def _cases(versions: Sequence[ActiveVersion], columns: Columns, *, inline: bool) -> sql.Composed:
    """`when <topic and type> then array[case when <condition> then <version> end, …]` for every topic and type."""
    by_type = attrgetter("topic_id", "event_type")
    cases: list[sql.Composed] = []
    in_order = sorted(versions, key=attrgetter("topic_id", "event_type", "version_id"))
    for (topic_id, event_type), group in groupby(in_order, key=by_type):
        # A match function sees one topic only.
        topic = sql.SQL("e.topic_id = {} and ").format(sql.Literal(topic_id)) if inline else sql.SQL("")
        answers = sql.SQL(", ").join(_answer(version, columns, inline=inline) for version in group)
        cases.append(sql.SQL("when {}e.type = {} then array[{}]").format(topic, sql.Literal(event_type), answers))
    return sql.SQL(" ").join(cases)


def _answer(version: ActiveVersion, columns: Columns, *, inline: bool) -> sql.Composed:
    condition = sql.SQL(to_postgres(version.condition, columns))
    # An inline rule sees events that have no position yet.
    since = sql.SQL("") if inline else sql.SQL("e.position >= {} and ").format(sql.Literal(version.since_position))
    return sql.SQL("case when {}{} then {}::bigint end").format(since, condition, sql.Literal(version.version_id))


def _fill(template: str, **parts: sql.Composable) -> sql.Composed:
    return sql.SQL(query(template)).format(**parts)
