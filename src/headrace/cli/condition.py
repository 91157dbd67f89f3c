"""`headrace condition`: test conditions before a rule uses them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option, Typer

from headrace.cli.output import table
from headrace.cli.session import Session, command
from headrace.core import NotFound, ProblemsFound
from headrace.db import connect
from headrace.definitions.schemas import Finding, check_condition, get_schema, parse_schema
from headrace.lang import condition as conditions
from headrace.rules import database_engine

group = Typer(help="Conditions: test the SQL predicates of rules.")

EngineName = Literal["python", "database", "spark"]
EVENT_MEMBERS = {"type", "key", "headers", "payload", "emitted_at"}


@command(group, "test", common=("dsn", "json"))
def test(
    session: Session,
    file: Annotated[Path, Argument(metavar="FILE", help="TOML file of cases.", show_default=False)],
    engine: Annotated[EngineName, Option(help="Engine that runs the cases.")] = "python",
) -> None:
    """Run a file of test cases on an engine.

    A case is a table `[[case]]` with name, condition, event (JSON with type, key, headers, payload) or payload alone,
    and expect = "true", "false" or "unknown", or error = "part of the message" for an invalid condition. The exit code is 6
    when a case differs.

    Example: headrace condition test rules.toml --engine database
    """
    cases = conditions.load_corpus(file)
    with _engine(session, engine) as chosen:
        outcomes = conditions.run_cases(cases, conditions.evaluate_pairs(chosen))
    differences = [
        None if outcome.passed else f"expected {case.expect or 'error: ' + (case.error or 'any')}, got {outcome.got}"
        for case, outcome in zip(cases, outcomes, strict=True)
    ]
    print_corpus_result(session, engine, [case.name for case in cases], differences)


@contextmanager
def _engine(session: Session, name: EngineName) -> Iterator[conditions.Engine]:
    if name == "python":
        yield conditions.python_engine
    elif name == "database":
        with connect(session.targets[0]) as conn:
            yield database_engine(conn)
    else:
        # Imported here: it takes a second, and Spark need not be installed.
        from headrace.spark import session as spark_session, spark_engine

        yield spark_engine(spark_session(brief=True))


@command(group, "explain", common=("json",))
def explain_(
    session: Session,
    condition: Annotated[str, Argument(metavar="CONDITION", help="The condition.", show_default=False)],
    event: Annotated[str, Option(metavar="JSON", help="The event: type, key, headers, payload; or the payload alone.")] = "{}",
) -> None:
    """Show the value of every clause of a condition, for one event.

    Example: headrace condition explain "(object -> 'hp')::int > 1000" --event '{"payload": {"hp": 1600}}'
    """
    clause = conditions.explain(conditions.parse(condition), _sample(event))
    session.print(clause, table(["clause", "value"], _rows(clause, 0)))


@command(group, "compare", common=("json",))
def compare_(
    session: Session,
    old: Annotated[str, Argument(metavar="OLD", help="The old condition.", show_default=False)],
    new: Annotated[str, Argument(metavar="NEW", help="The new condition.", show_default=False)],
) -> None:
    """Compare the events that two conditions match: equivalent, stricter, looser or different, with an example.

    Example: headrace condition compare "(object -> 'hp')::int > 5" "(object -> 'hp')::int >= 6"
    """
    comparison = conditions.compare_conditions(conditions.parse(old), conditions.parse(new))
    text = conditions.describe_difference(comparison)
    samples = {name: getattr(comparison, name) for name in ("only_old", "only_new")}
    payloads = {name: None if sample is None else conditions.jsonb_text(sample.payload) for name, sample in samples.items()}
    session.print(
        {"difference": comparison.difference, **payloads},
        text or "undecided: neither a proof that they are equal nor an example of a difference was found",
    )


def _sample(text: str) -> conditions.Sample:
    """The event. JSON with other members than those of an event is its payload."""
    value = conditions.decode_json(text)
    if isinstance(value, dict) and (set(value) <= EVENT_MEMBERS or "payload" in value):
        return conditions.read_sample(text)
    return conditions.read_sample(None, text)


def _rows(clause: conditions.ClauseValue, depth: int) -> Iterator[list[object]]:
    yield ["  " * depth + clause.text, clause.value]
    for part in clause.parts:
        yield from _rows(part, depth + 1)


@command(group, "check")
def check(
    session: Session,
    condition: Annotated[str, Argument(metavar="CONDITION", help="The condition.", show_default=False)],
    event_type: Annotated[str | None, Option(help="Check it against the schema of this event type.")] = None,
    schema: Annotated[
        Path | None, Option(metavar="FILE", help="Check it against this JSON Schema; no database is needed.")
    ] = None,
) -> None:
    """Check a condition: its syntax, and against a schema: fields that it does not have, casts and values that cannot be.

    The exit code is 5 for an invalid condition, and 6 if there are errors against the schema.

    Example: headrace condition check "object ->> 'custmer' = 'x'" --event-type order.placed
    """
    parsed = conditions.parse(condition)
    findings: tuple[Finding, ...] = ()
    if schema is not None:
        findings = check_condition(parsed, condition, parse_schema(schema.read_text(encoding="utf-8")))
    elif event_type is not None:
        _, stored = session.find(NotFound, session.bind(get_schema, event_type))
        findings = check_condition(parsed, condition, stored.values)
    rows = [[finding.severity, str(finding)] for finding in findings]
    session.print({"condition": parsed.text, "findings": findings}, table(["", "finding"], rows) if rows else parsed.text)
    if errors := sum(finding.severity == "error" for finding in findings):
        raise ProblemsFound(f"the condition has {errors} errors against the schema")


NAMED_MAX = 5
"""The error names at most this many cases; the table lists all."""


def print_corpus_result(session: Session, engine: str, names: Sequence[str], differences: Sequence[str | None]) -> None:
    """Prints the result of the named cases with the difference of each; raises ProblemsFound if a case differs."""
    cases = len(names)
    differ = [{"name": name, "what": what} for name, what in zip(names, differences, strict=True) if what is not None]
    tables = [table([("case", "name"), ("difference", "what")], differ)] if differ else []
    session.print(
        {"engine": engine, "cases": cases, "as_expected": cases - len(differ), "differ": differ},
        *tables,
        f"{cases} cases on engine {engine}: {cases - len(differ)} as expected, {len(differ)} differ",
    )
    if differ:
        more = f" and {len(differ) - NAMED_MAX} more" if len(differ) > NAMED_MAX else ""
        raise ProblemsFound(
            f"{len(differ)} of {cases} cases differ: {', '.join(case['name'] for case in differ[:NAMED_MAX])}{more}"
        )
