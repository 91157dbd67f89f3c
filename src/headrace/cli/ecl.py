"""`headrace ecl`: patterns of events, checked, compared, drawn and stepped through. Needs no database, but for tests on one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import typer

from headrace.cli.corpus import Difference, tell_corpus
from headrace.cli.ecl_check import examine
from headrace.cli.ecl_run import Ran, run_to
from headrace.cli.output import console, json_line, say, table
from headrace.cli.pattern import PatternText, read_pattern
from headrace.cli.session import Session, command
from headrace.cli.signs import SIGNS
from headrace.core import ProblemsFound
from headrace.correlators import run_cases
from headrace.db import connect_async
from headrace.lang.ecl import (
    Case,
    Comparison,
    PatternError,
    Relation,
    StateLimitExceeded,
    build_machine,
    compare,
    compile,
    dependencies,
    draw_machine,
    draw_table,
    load_corpus,
    parse,
    parse_events,
    print_pattern,
    run_case,
)

group = typer.Typer(help="ECL: patterns of events, checked before they go live.")

TestEngine = Literal["interpreter", "machine", "table", "database", "spark", "spark-stream"]


def _differences(session: Session, name: TestEngine, cases: Sequence[Case]) -> list[str | None]:
    """What differs from each case's answers on an engine, or None. Database and Spark run all cases together."""
    if name == "database":
        return asyncio.run(_on_database(session, cases))
    if name == "spark" or name == "spark-stream":
        # Not before it is wanted: the import takes a second, and Spark need not be installed.
        from headrace.spark import run_ecl_cases
        from headrace.spark import session as spark_session

        return run_ecl_cases(spark_session(brief=True), cases, name)
    return [run_case(case, name) for case in cases]


async def _on_database(session: Session, cases: Sequence[Case]) -> list[str | None]:
    async with await connect_async(session.targets[0]) as conn:
        return await run_cases(conn, cases)


@command(group, "test", common=("dsn", "json"))
def test(
    session: Session,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Cases in TOML.", show_default=False)],
    engine: Annotated[TestEngine, typer.Option(help="Which engine answers.")] = "table",
) -> None:
    """Run a file of cases; exit code 6 where a case differs, naming it.

    A case is a table `[[case]]` with name, pattern, events, outputs and status. Short form: events = "a a b" (one second
    apart), outputs = ". x x,y". Long form: events = [["a", 0], ["b", 2.5]], outputs = [[], [["x", 2]]].

    Example: headrace ecl test patterns.toml --engine interpreter
    """
    cases = load_corpus(file)
    refused = {place: refusal for place, case in enumerate(cases) if (refusal := _refusal(case))}
    sound = [(place, case) for place, case in enumerate(cases) if place not in refused]
    told = _differences(session, engine, [case for _, case in sound])
    found = refused | {place: what for (place, _), what in zip(sound, told, strict=True) if what is not None}
    differ = [Difference(cases[place].name, what.removeprefix(f"{cases[place].name}: ")) for place, what in sorted(found.items())]
    tell_corpus(session, engine, len(cases), differ)


def _refusal(case: Case) -> str | None:
    """Why a case's pattern is none, told before the others run."""
    try:
        compile(parse(case.pattern))
    except (PatternError, StateLimitExceeded) as error:
        return f"refused: {error}"
    return None


@command(group, "check", common=("json",))
def check(
    session: Session,
    pattern: PatternText,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings count as problems too.")] = False,
) -> None:
    """Look a pattern over: can it output at all, on every event, for ever; do guards of modes overlap. Each with a witness.

    Exit code 6 where it never outputs, or can get to where it waits in vain.

    Example: headrace ecl check 'push(x) {sequential {a, b}}'
    """
    parsed = read_pattern(pattern)
    compiled = compile(parsed)
    findings = examine(parsed, compiled)
    if session.json:
        size = {"tokens": compiled.tokens, "units": len(compiled.units)}
        json_line({"pattern": print_pattern(parsed), **size, "findings": findings})
    else:
        console().print(print_pattern(parsed), markup=False, soft_wrap=True)
        rows = [[SIGNS[one.level], one.check, one.message, one.witness or ""] for one in findings]
        console().print(table(["", "check", "found", "witness"], rows))
    counted = ("problem", "warning") if strict else ("problem",)
    if wrong := [one.check for one in findings if one.level in counted]:
        raise ProblemsFound(f"{len(wrong)} findings: {', '.join(wrong)}")


@command(group, "compare", common=("json",))
def compare_(
    session: Session,
    a: Annotated[str, typer.Argument(metavar="A", help="ECL, or @FILE.", show_default=False)],
    b: Annotated[str, typer.Argument(metavar="B", help="ECL, or @FILE.", show_default=False)],
) -> None:
    """Tell how the outputs of two patterns relate on all sequences of events: equivalent, one contains the other, different.

    Example: headrace ecl compare 'push(x) {a}' 'push(x) {select {a, b}}'
    """
    found = compare(read_pattern(a), read_pattern(b))
    if session.json:
        json_line(_comparison_json(found))
        return
    said = {
        Relation.EQUIVALENT: "equivalent: the same outputs on every sequence of events",
        Relation.A_CONTAINS_B: "A contains B: whatever B pushes, A pushes too",
        Relation.B_CONTAINS_A: "B contains A: whatever A pushes, B pushes too",
        Relation.DIFFERENT: "different",
    }
    console().print(said[found.relation])
    facts: list[tuple[str, object]] = []
    if found.difference is not None:
        facts.append(("first difference", str(found.difference)))
        facts.append(("A pushes there", ", ".join(found.outputs_a) or "nothing"))
        facts.append(("B pushes there", ", ".join(found.outputs_b) or "nothing"))
    witnesses = {"only A pushes": found.only_a, "only B pushes": found.only_b, "end differently": found.status_difference}
    facts += [(what, str(witness)) for what, witness in witnesses.items() if witness is not None]
    if facts:
        console().print(table(["", "after"], facts))


def _comparison_json(found: Comparison) -> dict[str, object]:
    traces = {name: getattr(found, name) for name in ("difference", "only_a", "only_b", "status_difference")}
    shown = {name: None if trace is None else str(trace) for name, trace in traces.items()}
    return {"relation": found.relation, **shown, "outputs_a": found.outputs_a, "outputs_b": found.outputs_b}


@command(group, "deps", common=("json",))
def deps(session: Session, pattern: PatternText) -> None:
    """Show which predicates, event types and timers can influence which token.

    Example: headrace ecl deps @fraud.ecl
    """
    found = dependencies(compile(read_pattern(pattern)))
    if session.json:
        json_line(msgspec.to_builtins(found))
        return
    types = [", ".join([*one.types, *["any other"] * one.any_type]) for one in found]
    rows = [[one.token, ", ".join(one.predicates), own, one.timers] for one, own in zip(found, types, strict=True)]
    console().print(table(["token", "depends on", "event types that matter", "timers"], rows))


@command(group, "draw", common=("json",))
def draw(
    session: Session,
    pattern: PatternText,
    what: Annotated[Literal["table", "machine"], typer.Option(help="The compiled table, or the correlation machine.")] = "table",
    form: Annotated[Literal["mermaid", "dot", "svg"], typer.Option("--as", help="SVG needs Graphviz.")] = "mermaid",
    output: Annotated[Path | None, typer.Option(help="Write it to this file.", show_default="standard output")] = None,
) -> None:
    """Draw a pattern, with the events on the edges.

    Examples: headrace ecl draw @fraud.ecl · headrace ecl draw @fraud.ecl --what machine --as svg --output fraud.svg
    """
    parsed = read_pattern(pattern)
    drawn = draw_table(compile(parsed), form=form) if what == "table" else draw_machine(build_machine(parsed), form=form)
    if output is not None:
        output.write_text(drawn, encoding="utf-8")
        session.done(f"{output} written", {"what": what, "form": form, "output": str(output)})
    elif session.json:
        json_line({"what": what, "form": form, "drawing": drawn})
    else:
        say(drawn.rstrip("\n"))


@command(group, "run", common=("json",))
def run(
    session: Session,
    pattern: PatternText,
    events: Annotated[str, typer.Option(help='As "a a b", one second apart, or JSON.', show_default=False)],
    until: Annotated[float | None, typer.Option(metavar="SECONDS", help="Let time go on to here, for timers.")] = None,
) -> None:
    """Step through a pattern: what each event does, where it stands, what it waits for, and the shortest way to an output.

    JSON events are lists of type, seconds and, as wished, payload.

    Examples: headrace ecl run 'push(x) {sequential {a, b}}' --events 'a c b' ·
    headrace ecl run 'push(x) {after 5 s}' --events '[["a", 0], ["b", 2.5, {"amount": 3}]]' --until 10
    """
    ran = run_to(read_pattern(pattern), parse_events(events), until_s=until)
    if session.json:
        json_line(msgspec.to_builtins(ran))
        return
    _print_run(ran)


def _print_run(ran: Ran) -> None:
    rows = [[one.number, one.type, one.at_s, ", ".join(one.outputs) or ".", one.moved, one.status] for one in ran.steps]
    console().print(table(["", "event", "at (s)", "outputs", "moved", "status"], rows))
    console().print(f"waits for: {', '.join(ran.waits_for) or 'nothing'}", markup=False, soft_wrap=True)
    if ran.deadline_s is not None:
        console().print(f"next timer at {ran.deadline_s:g} s")
    shortest = "there is no way to another output" if ran.shortest is None else f"shortest way to an output: {ran.shortest}"
    console().print(shortest, markup=False, soft_wrap=True)
