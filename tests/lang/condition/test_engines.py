"""Every engine gives the answers of the corpus, and all engines agree on every condition over every event of the corpus."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg

from headrace.lang.condition import (
    Engine,
    Outcome,
    evaluate_pairs,
    load_corpus,
    parse,
    python_engine,
    run_cases,
    sample_rows,
)
from headrace.rules import database_engine
from headrace.spark import spark_engine

CORPUS = Path(__file__).parents[2] / "corpus"
VALID = (*load_corpus(CORPUS / "condition.toml"), *load_corpus(CORPUS / "condition_rulings.toml"))
HOSTILE = load_corpus(CORPUS / "condition_hostile.toml")


def failures(outcomes: Sequence[Outcome]) -> list[str]:
    return [f"{o.case.name}: expected {o.case.expect or o.case.error}, got {o.got}" for o in outcomes if not o.passed]


def corpus_failures(engine: Engine) -> list[str]:
    return failures(run_cases(VALID, evaluate_pairs(engine)))


def differences(engine: Engine) -> list[str]:
    """Where the engine differs from Python, for every condition of the corpus over every event of it.

    The diagonal of that table is the corpus itself, to which Python gives the expected answers."""
    conditions = [parse(case.condition) for case in VALID]
    events = [case.event for case in VALID]
    expected, actual = python_engine(conditions, events), engine(conditions, events)
    return [
        f"{condition.text} on {event}: python {a}, engine {b}"
        for event, expected_row, actual_row in zip(events, expected, actual, strict=True)
        for condition, a, b in zip(conditions, expected_row, actual_row, strict=True)
        if a is not b
    ]


def test_python_answers_the_corpus() -> None:
    assert corpus_failures(python_engine) == []


def test_database_answers_the_corpus_and_agrees_with_python(database: psycopg.Connection) -> None:
    assert corpus_failures(database_engine(database, extract_once=False)) + differences(database_engine(database)) == []


def test_spark_answers_the_corpus_and_agrees_with_python(spark: Any) -> None:
    assert differences(spark_engine(spark)) == []


def test_hostile_texts_are_rejected() -> None:
    assert failures(run_cases(HOSTILE, lambda pairs: [None] * len(pairs))) == []


def test_postgres_itself_gives_the_answers_of_the_corpus(database: psycopg.Connection) -> None:
    """Where PostgreSQL evaluates the text as written, and does not raise, the answer is ours: precedence, paths, logic."""
    cases = load_corpus(CORPUS / "condition.toml")
    answers = {True: "true", False: "false", None: "unknown"}
    different, evaluated = [], 0
    for case in cases:
        try:
            row = database.execute(
                f"select ({case.condition.replace('%', '%%')}) from (select %s::int, %s::text as type, %s::text as key,"
                ' %s::jsonb as headers, %s::jsonb as "object", %s::timestamptz as emitted_at offset 0) event',
                sample_rows([case.event])[0],
            ).fetchone()
        except psycopg.DataError:
            continue
        evaluated += 1
        if row is None or answers[row[0]] != case.expect:
            different.append(f"{case.name}: {case.condition} is {row}, expected {case.expect}")
    assert different == []
    assert evaluated > len(cases) * 0.8
