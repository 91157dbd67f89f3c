"""Generates the programs that evaluate rules: SQL statements, one for the rules of a topic and one for its inline rules.

Promises: a program consists of our own trees and names only: `sql.SQL` gets what the condition language has printed. Rules of a
shape that many share are rows of one join, so that a new one does not change the program; rules of a rare shape are compared one by
one, which is cheaper than a lookup. An inline program becomes part of a function, whose text every role may read: its constants and
field names are parameters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property
from hashlib import md5
from itertools import groupby
from operator import attrgetter

from psycopg import sql

from headrace.db import Connection, map_database_errors, query
from headrace.lang.condition import (
    Condition,
    Engine,
    Field,
    Sample,
    SqlDialect,
    TruthTable,
    Type,
    evaluate_sql,
    field_to_postgres,
    parse,
    sample_rows,
    shape_to_postgres,
    to_postgres,
)

SHARED_MIN = 8
"""A shape with this many rules is a join."""
DIRECT_MAX = 500
"""At most this many rules are compared one by one in a program; the others are joined."""

COLUMNS_MAX = 1_000
"""Fields that are extracted once for all rules. PostgreSQL allows 1 664 columns; fields above this are extracted where they are read."""

_LOGGED = "e.position, e.event_id, e.type, e.key, e.payload, e.emitted_at, e.producer, e.headers"
"""What a firing needs of an event of the log."""

_POSTGRES = SqlDialect(to_postgres, field_to_postgres, " offset 0")

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
    variants: Sequence[int] = ()
    """Of the shape: the lengths of prefixes, or the levels of blocks, that its keys have."""

    @cached_property
    def condition(self) -> Condition:
        return parse(self.canonical)


@dataclass(frozen=True)
class Parameters:
    """The constants of a program, by type; the program reads them as elements of arrays."""

    integers: list[int] = field(default_factory=list)
    numerics: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    moments: list[str] = field(default_factory=list)

    def bind(self, value: str | int | Decimal, type: Type) -> str:
        """Adds a constant and returns the SQL that reads it."""
        match type:
            case Type.INTEGER:
                self.integers.append(int(value))
                return f"v_integers[{len(self.integers)}]"
            case Type.NUMERIC:
                self.numerics.append(format(Decimal(value), "f"))
                return f"v_numerics[{len(self.numerics)}]"
            case Type.TIMESTAMPTZ:
                self.moments.append(str(value))
                return f"v_moments[{len(self.moments)}]"
            case _:
                return self.bind_text(str(value))

    def bind_text(self, text: str) -> str:
        self.texts.append(text)
        return f"v_texts[{len(self.texts)}]"

    def bind_names(self, field: Field) -> str:
        """The extraction of a field with its names as parameters."""
        marks: dict[str, str] = {}

        def mark(name: str) -> str:
            # No printer of ours writes such a text, and a user's text is not in the program.
            text = f"§{len(marks)}§"
            marks[text] = self.bind_text(name)
            return text

        path = tuple(mark(step) if isinstance(step, str) else step for step in field.path)
        key = None if field.key is None else mark(field.key)
        text = field_to_postgres(replace(field, path=path, key=key))
        for name, parameter in marks.items():
            text = text.replace(f"'{name}'", parameter)
        return text


@dataclass(frozen=True)
class Program:
    """A statement and its constants."""

    text: str
    parameters: Parameters = field(default_factory=Parameters)

    @property
    def checksum(self) -> str:
        """Differs when anything of the program differs."""
        return md5(repr((self.text, self.parameters)).encode(), usedforsecurity=False).hexdigest()


def match_program(topic_id: int, versions: Sequence[ActiveVersion]) -> Program:
    """Which rule is true for which event, after position $1 up to $2. Versions: SHARED_MIN of every shape, or all it has."""
    columns = _columns(versions)
    text = _fill(
        "rules/match_program",
        fields=_extractions(columns),
        log=sql.Identifier(f"log_{topic_id}"),
        branches=sql.SQL("    union all\n    ").join(_branches(versions, columns)),
    ).as_string(None)
    return Program(text)


def inline_program(topic_id: int, versions: Sequence[ActiveVersion]) -> Program:
    """Which rule is true for which event of `published`, which has the columns of the outbox."""
    parameters = Parameters()
    columns = _columns(versions, parameters)
    text = _fill(
        "rules/inline_program",
        fields=_extractions(columns, parameters),
        topic_id=sql.Literal(topic_id),
        branches=sql.SQL("    union all\n    ").join(_branches(versions, columns, parameters)),
    ).as_string(None)
    return Program(text, parameters)


def _columns(versions: Iterable[ActiveVersion], parameters: Parameters | None = None) -> Columns:
    """How rules read each field: as a column of the event, or, beyond COLUMNS_MAX, by an extraction in place."""
    extract = parameters.bind_names if parameters else field_to_postgres
    # `key` and the like come first and are always columns: in place they could be taken for columns of the joined rules.
    fields = sorted(
        dict.fromkeys(field for version in versions for field in version.condition.fields),
        key=lambda field: field.root in ("object", "headers"),
    )
    return {field: f"e.f{number}" if number <= COLUMNS_MAX else f"({extract(field)})" for number, field in enumerate(fields, 1)}


def _extractions(columns: Columns, parameters: Parameters | None = None) -> sql.Composable:
    """Each field as a column, with a comma before it."""
    extract = parameters.bind_names if parameters else field_to_postgres
    return sql.Composed(
        [
            sql.SQL(", {} as {}").format(sql.SQL(extract(field)), sql.Identifier(name.removeprefix("e.")))
            for field, name in columns.items()
            if name.startswith("e.f")
        ]
    )


def _branches(versions: Sequence[ActiveVersion], columns: Columns, parameters: Parameters | None = None) -> list[sql.Composed]:
    """One join per shape that many rules share, and one list of all other rules."""
    # An inline rule sees events that have no position yet.
    event = sql.SQL("e.id, e.event_id" if parameters else _LOGGED)
    since = sql.SQL("" if parameters else "m.since_position <= e.position and ")
    shared: list[ActiveVersion] = []
    direct: list[ActiveVersion] = []
    for _, group in groupby(versions, key=attrgetter("shape_id")):
        of_shape = list(group)
        if len(of_shape) >= SHARED_MIN or len(direct) + len(of_shape) > DIRECT_MAX:
            shared.append(of_shape[0])
        else:
            direct.extend(of_shape)
    branches = [_join(version, columns, event, since) for version in shared]
    if direct:
        branches.append(_fill("rules/match_direct", columns=event, cases=_cases(direct, columns, parameters)))
    return branches


def _join(version: ActiveVersion, columns: Columns, event: sql.SQL, since: sql.SQL) -> sql.Composed:
    shape = shape_to_postgres(version.condition, columns, "m", version.variants)
    key = shape.keys[0] if len(shape.keys) == 1 else f"any (array[{', '.join(shape.keys)}])"
    lookup = f"m.key = {key}" + (f" and {shape.bound}" if shape.bound else "")
    return _fill(
        "rules/match_join",
        columns=event,
        shape_id=sql.Literal(version.shape_id),
        lookup=sql.SQL(lookup),
        since=since,
        rest=sql.SQL(shape.residual or "true"),
    )


def _cases(versions: Sequence[ActiveVersion], columns: Columns, parameters: Parameters | None) -> sql.Composed:
    """`when <type> then array[case when <condition> then <version> end, …]` for every event type."""
    cases: list[sql.Composed] = []
    in_order = sorted(versions, key=attrgetter("event_type", "version_id"))
    for event_type, group in groupby(in_order, key=attrgetter("event_type")):
        name = sql.SQL(parameters.bind_text(event_type)) if parameters else sql.Literal(event_type)
        answers = sql.SQL(", ").join(_answer(version, columns, parameters) for version in group)
        cases.append(sql.SQL("when e.type = {} then array[{}]").format(name, answers))
    return sql.SQL(" ").join(cases)


def _answer(version: ActiveVersion, columns: Columns, parameters: Parameters | None) -> sql.Composed:
    condition = sql.SQL(to_postgres(version.condition, columns, parameters.bind if parameters else None))
    # An inline rule sees events that have no position yet.
    since = sql.SQL("") if parameters else sql.SQL("e.position >= {} and ").format(sql.Literal(version.since_position))
    return sql.SQL("case when {}{} then {}::bigint end").format(since, condition, sql.Literal(version.version_id))


def _fill(template: str, **parts: sql.Composable) -> sql.Composed:
    return sql.SQL(query(template)).format(**parts)


def database_engine(conn: Connection, *, extract_once: bool = True) -> Engine:
    """The engine of the database for conditions on events that are in no log; by default it extracts each field once per event, as rules do."""

    def evaluate(conditions: Sequence[Condition], events: Sequence[Sample]) -> TruthTable:
        with map_database_errors(), conn.transaction():
            conn.execute(query("rules/sample"))
            with conn.cursor().copy("copy sample from stdin") as copy:
                for row in sample_rows(events):
                    copy.write_row(row)
            # Text of our own printers: the user's is never executed.
            return evaluate_sql(conditions, len(events), _POSTGRES, conn.execute, extract_once=extract_once)

    return evaluate
