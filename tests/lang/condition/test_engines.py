"""Every engine gives every case of the corpus its answer, and all of them agree on every condition over every event."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest

from headrace.lang.condition import Engine, Outcome, load_corpus, pairwise, parse, python_engine, run_cases, sample_rows
from headrace.rules import database_engine
from headrace.spark import spark_engine

CORPUS = Path(__file__).parents[2] / "corpus"
ANSWERED = (*load_corpus(CORPUS / "condition.toml"), *load_corpus(CORPUS / "condition_rulings.toml"))
REFUSED = load_corpus(CORPUS / "condition_hostile.toml")


def failures(outcomes: Sequence[Outcome]) -> list[str]:
    return [f"{o.case.name}: expected {o.case.expect or o.case.error}, got {o.got}" for o in outcomes if not o.passed]


def test_python_engine_the_corpus() -> None:
    assert failures(run_cases(ANSWERED, pairwise(python_engine))) == []


@pytest.mark.parametrize("hoisted", [False, True])
def test_database_answers_the_corpus(database: psycopg.Connection, hoisted: bool) -> None:
    assert failures(run_cases(ANSWERED, pairwise(database_engine(database, hoisted=hoisted)))) == []


@pytest.mark.parametrize("hoisted", [False, True])
def test_spark_answers_the_corpus(spark: Any, hoisted: bool) -> None:
    assert failures(run_cases(ANSWERED, pairwise(spark_engine(spark, hoisted=hoisted)))) == []


def test_hostile_texts_are_refused() -> None:
    assert failures(run_cases(REFUSED, lambda pairs: [None] * len(pairs))) == []


def differences(engine: Engine) -> list[str]:
    conditions = [parse(case.condition) for case in ANSWERED]
    events = [case.event for case in ANSWERED]
    expected, given = python_engine(conditions, events), engine(conditions, events)
    return [
        f"{condition.text} on {event}: python {a}, engine {b}"
        for event, wanted, got in zip(events, expected, given, strict=True)
        for condition, a, b in zip(conditions, wanted, got, strict=True)
        if a is not b
    ]


def test_database_agrees_on_every_condition_over_every_event(database: psycopg.Connection) -> None:
    assert differences(database_engine(database, hoisted=True)) == []


def test_spark_agrees_on_every_condition_over_every_event(spark: Any) -> None:
    assert differences(spark_engine(spark, hoisted=True)) == []


def test_postgres_itself_reads_the_corpus_alike(database: psycopg.Connection) -> None:
    """Where PostgreSQL answers the text as written, and does not raise, the answer is ours: precedence, paths, logic."""
    cases = load_corpus(CORPUS / "condition.toml")
    answers = {True: "true", False: "false", None: "unknown"}
    different, answered = [], 0
    for case in cases:
        try:
            found = database.execute(
                f"select ({case.condition.replace('%', '%%')}) from (select %s::int, %s::text as type, %s::text as key,"
                ' %s::jsonb as headers, %s::jsonb as "object", %s::timestamptz as emitted_at offset 0) event',
                sample_rows([case.event])[0],
            ).fetchone()
        except psycopg.DataError:
            continue
        answered += 1
        if found is None or answers[found[0]] != case.expect:
            different.append(f"{case.name}: {case.condition} is {found}, expected {case.expect}")
    assert different == []
    assert answered > len(cases) * 0.8
