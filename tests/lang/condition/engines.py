"""The three engines behind one face: the answers of many conditions to many events, as a table.

Each engine answers all of them in one round trip. Where `hoisted`, fields are extracted once in a subquery and the
conditions read columns, as the rules of a topic do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import psycopg

from headrace.lang.condition import (
    Condition,
    Field,
    Sample,
    field_to_postgres,
    field_to_spark,
    jsonb_text,
    to_postgres,
    to_python,
    to_spark,
)

Answers = list[list[bool | None]]
Engine = Callable[[Sequence[Condition], Sequence[Sample]], Answers]
Print = Callable[[Condition, dict[Field, str]], str]
_COLUMNS_PER_QUERY = 200


def python_answers(conditions: Sequence[Condition], events: Sequence[Sample]) -> Answers:
    functions = [to_python(condition) for condition in conditions]
    return [[function(event) for function in functions] for event in events]


def rows_of(events: Sequence[Sample]) -> list[tuple[object, ...]]:
    return [(i, e.type, e.key, jsonb_text(dict(e.headers)), jsonb_text(e.payload), e.emitted_at) for i, e in enumerate(events)]


def database_engine(connection: psycopg.Connection, *, hoisted: bool = False) -> Engine:
    def answers(conditions: Sequence[Condition], events: Sequence[Sample]) -> Answers:
        with connection.transaction():
            connection.execute(
                "create temporary table sample (i int, type text, key text, headers jsonb, payload jsonb,"
                " emitted_at timestamptz) on commit drop"
            )
            with connection.cursor().copy("copy sample from stdin") as copy:
                for row in rows_of(events):
                    copy.write_row(row)
            columns = _columns(conditions, hoisted)
            return _table(
                len(events),
                conditions,
                lambda condition: to_postgres(condition, columns),
                lambda select: connection.execute(select).fetchall(),
                _source(columns, field_to_postgres, " offset 0"),
            )

    return answers


def spark_engine(session: Any, *, hoisted: bool = False) -> Engine:
    def answers(conditions: Sequence[Condition], events: Sequence[Sample]) -> Answers:
        schema = "i int, type string, key string, headers string, payload string, emitted_at timestamp"
        session.createDataFrame(rows_of(events), schema).createOrReplaceTempView("sample")
        columns = _columns(conditions, hoisted)
        return _table(
            len(events),
            conditions,
            lambda condition: to_spark(condition, columns),
            lambda select: [tuple(row) for row in session.sql(select).collect()],
            _source(columns, field_to_spark, ""),
        )

    return answers


def _columns(conditions: Sequence[Condition], hoisted: bool) -> dict[Field, str]:
    fields = dict.fromkeys(field for condition in conditions for field in condition.fields) if hoisted else {}
    return {field: f"f{number}" for number, field in enumerate(fields)}


def _source(columns: dict[Field, str], extract: Callable[[Field], str], fence: str) -> str:
    if not columns:
        return "sample"
    fields = ", ".join(f"{extract(field)} as {name}" for field, name in columns.items())
    return f"(select i, type, key, headers, payload, emitted_at, {fields} from sample{fence}) s"


def _table(
    rows: int,
    conditions: Sequence[Condition],
    printed: Callable[[Condition], str],
    run: Callable[[str], list[tuple[Any, ...]]],
    source: str,
) -> Answers:
    table: Answers = [[] for _ in range(rows)]
    for start in range(0, len(conditions), _COLUMNS_PER_QUERY):
        chunk = conditions[start : start + _COLUMNS_PER_QUERY]
        columns = ", ".join(f"{printed(condition)} as c{number}" for number, condition in enumerate(chunk))
        for row in run(f"select i, {columns} from {source}"):
            table[row[0]].extend(row[1:])
    return table
