"""`headrace condition`: test conditions before a rule uses them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import typer

from headrace.cli.corpus import Difference, print_corpus_result
from headrace.cli.output import console, json_line, table
from headrace.cli.session import Session, command
from headrace.db import connect
from headrace.lang.condition import (
    ClauseValue,
    Engine,
    Outcome,
    Sample,
    decode_json,
    evaluate_pairs,
    explain,
    load_corpus,
    parse,
    python_engine,
    read_sample,
    run_cases,
)
from headrace.rules import database_engine

group = typer.Typer(help="Conditions: test the SQL predicates of rules.")

EngineName = Literal["python", "database", "spark"]
EVENT_MEMBERS = {"type", "key", "headers", "payload", "emitted_at"}


@command(group, "test", common=("dsn", "json"))
def test(
    session: Session,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Cases in TOML.", show_default=False)],
    engine: Annotated[EngineName, typer.Option(help="Engine that evaluates the conditions.")] = "python",
) -> None:
    """Run the cases of a file; exit with code 6 and name the cases that differ.

    A case is a table `[[case]]` with name, condition, event (JSON with type, key, headers, payload) or payload alone,
    and expect = "true", "false" or "unknown", or error = "part of the message" for a condition that must be rejected.

    Example: headrace condition test rules.toml --engine database
    """
    cases = load_corpus(file)
    with _engine(session, engine) as chosen:
        outcomes = run_cases(cases, evaluate_pairs(chosen))
    differ = [
        Difference(outcome.case.name, f"expected {_expected(outcome)}, got {outcome.got}")
        for outcome in outcomes
        if not outcome.passed
    ]
    print_corpus_result(session, engine, len(cases), differ)


def _expected(outcome: Outcome) -> str:
    case = outcome.case
    return case.expect or f"error: {case.error or 'any'}"


@contextmanager
def _engine(session: Session, name: EngineName) -> Iterator[Engine]:
    if name == "python":
        yield python_engine
    elif name == "database":
        with connect(session.targets[0]) as conn:
            yield database_engine(conn)
    else:
        # Imported here: it takes a second, and Spark need not be installed.
        from headrace.spark import session as spark_session
        from headrace.spark import spark_engine

        yield spark_engine(spark_session(brief=True))


@command(group, "explain", common=("json",))
def explain_(
    session: Session,
    condition: Annotated[str, typer.Argument(metavar="CONDITION", help="The condition.", show_default=False)],
    event: Annotated[
        str, typer.Option(metavar="JSON", help="The event: type, key, headers, payload; or the payload alone.")
    ] = "{}",
) -> None:
    """Show the value of every clause of a condition, for one event.

    Example: headrace condition explain "(object -> 'hp')::int > 1000" --event '{"payload": {"hp": 1600}}'
    """
    explained = explain(parse(condition), _sample(event))
    if session.json:
        json_line(msgspec.to_builtins(explained))
        return
    console().print(table(["clause", "value"], list(_rows(explained, 0))))


def _sample(text: str) -> Sample:
    """The event. JSON with other members than those of an event is its payload."""
    value = decode_json(text)
    if isinstance(value, dict) and (set(value) <= EVENT_MEMBERS or "payload" in value):
        return read_sample(text)
    return read_sample(None, text)


def _rows(clause: ClauseValue, depth: int) -> Iterator[list[object]]:
    yield ["  " * depth + clause.text, clause.value]
    for part in clause.parts:
        yield from _rows(part, depth + 1)
