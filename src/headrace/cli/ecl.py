"""`headrace ecl`: checks, compares, draws and runs ECL patterns. Only `ecl test --engine database` needs a database."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal, cast

from typer import Argument, Option, Typer

from headrace.cli.condition import print_corpus_result
from headrace.cli.options import Strict
from headrace.cli.output import SIGNS, Column, json_line, say, table
from headrace.cli.session import Session, command
from headrace.core import Invalid, ProblemsFound
from headrace.correlators import run_cases
from headrace.db import connect_async
from headrace.lang import ecl
from headrace.observe.doctor import Level

REGISTERS_NOTE = "approximate: conditions that read kept values count as true or false freely, so output may need values that no event can have"
group = Typer(help="ECL patterns: check, compare, draw and run them before you use them.")

PATTERN = "ECL pattern, or @FILE."
PatternText = Annotated[str, Argument(metavar="PATTERN", help=PATTERN, show_default=False)]
TestEngine = Literal["interpreter", "machine", "table", "database", "spark", "spark-stream"]


def _differences(session: Session, name: TestEngine, cases: Sequence[ecl.Case]) -> list[str | None]:
    """Runs cases on an engine; returns the difference of each case, or None. Database and Spark run all cases together."""
    if name == "database":

        async def on_database() -> list[str | None]:
            async with await connect_async(session.targets[0]) as conn:
                return await run_cases(conn, cases)

        return asyncio.run(on_database())
    if name == "spark" or name == "spark-stream":
        # Imported here: it takes a second, and Spark may not be installed.
        from headrace.spark import run_ecl_cases, session as spark_session

        return run_ecl_cases(spark_session(brief=True), cases, name)
    return [ecl.run_case(case, name) for case in cases]


@command(group, "test", common=("dsn", "json"))
def test(
    session: Session,
    file: Annotated[Path, Argument(metavar="FILE", help="TOML file of cases.", show_default=False)],
    engine: Annotated[TestEngine, Option(help="Engine that runs the cases.")] = "table",
) -> None:
    """Run a file of test cases on an engine.

    A case is a table `[[case]]` with name, pattern, events, outputs and status. Short form: events = "a a b" (one second
    apart), outputs = ". x x,y". Long form: events = [["a", 0], ["b", 2.5]], outputs = [[], [["x", 2]]]. The exit code is 6 when
    a case differs.

    Example: headrace ecl test patterns.toml --engine interpreter
    """
    cases = ecl.load_corpus(file)
    errors: list[str | None] = []
    for case in cases:
        try:
            ecl.compile(ecl.parse(case.pattern))
            errors.append(None)
        except (ecl.PatternError, ecl.StateLimitExceeded) as error:
            errors.append(f"invalid pattern: {error}")
    valid = [case for case, error in zip(cases, errors, strict=True) if error is None]
    results = iter(_differences(session, engine, valid))
    names = [case.name for case in cases]
    differences = [error or next(results) for error in errors]
    texts = [text and text.removeprefix(f"{name}: ") for name, text in zip(names, differences, strict=True)]
    print_corpus_result(session, engine, names, texts)


@command(group, "check", common=("json",))
def check(session: Session, pattern: PatternText, strict: Strict = False) -> None:
    """Analyze a pattern: can it produce output, always, and forever?

    It also finds guards of modes that overlap. Each finding comes with a witness: a sequence of events that shows it. The exit
    code is 6 when the pattern can never produce output, or can reach a state that waits forever.

    Example: headrace ecl check 'push(x) {sequential {a, b}}'
    """
    parsed = read_pattern(pattern)
    compiled = ecl.compile(parsed)
    findings = examine(parsed, compiled)
    text, size = ecl.print_pattern(parsed), {"tokens": compiled.tokens, "units": len(compiled.units)}
    rows = [[SIGNS[finding.level], finding.check, finding.message, finding.witness or ""] for finding in findings]
    notes = [REGISTERS_NOTE] if compiled.registers is not None else []
    facts = {"pattern": text, **size, "findings": findings, "approximate": bool(notes)}
    session.print(facts, text, table(["", "check", "result", "witness"], rows), *notes)
    counted = ("problem", "warning") if strict else ("problem",)
    if failed := [finding.check for finding in findings if finding.level in counted]:
        raise ProblemsFound(f"{len(failed)} findings: {', '.join(failed)}")


@command(group, "compare", common=("json",))
def compare_(
    session: Session,
    a: Annotated[str, Argument(metavar="A", help=PATTERN, show_default=False)],
    b: Annotated[str, Argument(metavar="B", help=PATTERN, show_default=False)],
) -> None:
    """Compare the outputs of two patterns on all sequences of events.

    The patterns are equivalent, one contains the other, or they are different.

    Example: headrace ecl compare 'push(x) {a}' 'push(x) {select {a, b}}'
    """
    comparison = ecl.compare(read_pattern(a), read_pattern(b))
    meaning = {
        ecl.Relation.EQUIVALENT: "equivalent: the same outputs on every sequence of events",
        ecl.Relation.A_CONTAINS_B: "A contains B: A produces every output of B",
        ecl.Relation.B_CONTAINS_A: "B contains A: B produces every output of A",
        ecl.Relation.DIFFERENT: "different",
    }[comparison.relation]
    if not comparison.is_exact:
        meaning += "; perhaps more, since a difference may need values that no event can have"
    traces = {name: getattr(comparison, name) for name in ("difference", "only_a", "only_b", "status_difference")}
    texts = {name: None if trace is None else str(trace) for name, trace in traces.items()}
    outputs = {"outputs_a": comparison.outputs_a, "outputs_b": comparison.outputs_b}
    rows = [("first difference", texts["difference"])]
    if comparison.difference is not None:
        rows += [(f"output of {name[-1].upper()} there", ", ".join(tokens) or "nothing") for name, tokens in outputs.items()]
    rows += [("output of A only", texts["only_a"]), ("output of B only", texts["only_b"])]
    rows = [row for row in [*rows, ("other status", texts["status_difference"])] if row[1] is not None]
    tables = [table(["", "after"], rows)] if rows else []
    facts = {"relation": comparison.relation, "is_exact": comparison.is_exact, **texts, **outputs}
    session.print(facts, meaning, *tables)


@command(group, "deps", common=("json",))
def deps(session: Session, pattern: PatternText) -> None:
    """Show which predicates, event types and timers influence each token.

    Example: headrace ecl deps @fraud.ecl
    """
    tokens = ecl.dependencies(ecl.compile(read_pattern(pattern)))
    depends_on: Column = ("depends on", lambda token: ", ".join(token.predicates))
    types: Column = ("event types", lambda token: ", ".join([*token.types, *["any other"] * token.any_type]))
    session.print(tokens, table(["token", depends_on, types, "timers"], tokens))


@command(group, "draw", common=("json",))
def draw(
    session: Session,
    pattern: PatternText,
    what: Annotated[Literal["table", "machine"], Option(help="Compiled table, or correlation machine.")] = "table",
    form: Annotated[Literal["mermaid", "dot", "svg"], Option("--as", help="Format; SVG needs Graphviz.")] = "mermaid",
    output: Annotated[Path | None, Option(help="File to write.", show_default="standard output")] = None,
) -> None:
    """Draw a pattern as a graph with events on the edges.

    Examples: headrace ecl draw @fraud.ecl · headrace ecl draw @fraud.ecl --what machine --as svg --output fraud.svg
    """
    parsed = read_pattern(pattern)
    as_table = what == "table"
    drawing = (
        ecl.draw_table(ecl.compile(parsed), form=form) if as_table else ecl.draw_machine(ecl.build_machine(parsed), form=form)
    )
    if output is not None:
        output.write_text(drawing, encoding="utf-8")
        session.done(f"{output} written", {"what": what, "form": form, "output": str(output)})
    elif session.json:
        json_line({"what": what, "form": form, "drawing": drawing})
    else:
        say(drawing.rstrip("\n"))


@command(group, "run", common=("json",))
def run(
    session: Session,
    pattern: PatternText,
    events: Annotated[str, Option(help='As "a a b", one second apart, or as JSON.', show_default=False)],
    until: Annotated[float | None, Option(metavar="SECONDS", help="Advance the time to this point, for timers.")] = None,
) -> None:
    """Run a pattern over events and show each step.

    At the end it shows what the pattern waits for, and the shortest way to its next output. JSON events are lists of type,
    seconds and an optional payload.

    Examples: headrace ecl run 'push(x) {sequential {a, b}}' --events 'a c b' ·
    headrace ecl run 'push(x) {after 5 s}' --events '[["a", 0], ["b", 2.5, {"amount": 3}]]' --until 10
    """
    result = run_pattern(read_pattern(pattern), ecl.parse_events(events), until_s=until)
    outputs: Column = ("outputs", lambda step: ", ".join(step.outputs) or ".")
    kept: Column = ("registers", lambda step: "; ".join(register_words(captured) or "nothing" for captured in step.captured))
    registers: list[Column] = [kept] if any(any(step.captured) for step in result.steps) else []
    session.print(
        result,
        table([("", "number"), ("event", "type"), "at_s", outputs, "moved", "status", *registers], result.steps),
        f"waits for: {', '.join(result.waits_for) or 'nothing'}",
        *([] if result.deadline_s is None else [f"next timer at {result.deadline_s:g} s"]),
        "no further output is possible" if result.shortest is None else f"shortest way to an output: {result.shortest}",
    )


def register_words(captured: Mapping[str, object]) -> str:
    """What one instance keeps, without what is empty."""
    return ", ".join(f"{name} = {value}" for name, value in captured.items() if value is not None)


def read_pattern(argument: str) -> ecl.Pattern:
    """Parses a pattern; `@name` reads it from a file. Raises PatternError with line and column."""
    try:
        return ecl.parse(read_text(argument))
    except ecl.PatternError as error:
        if argument.startswith("@"):
            error.add_note(f"in {argument[1:]}")
        raise


def read_text(argument: str) -> str:
    """The text of a pattern; `@name` reads it from a file."""
    if not argument.startswith("@"):
        return argument
    path = Path(argument[1:])
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(f"cannot read {path}: {error}; write the pattern itself, or @ and the name of its file") from None


@dataclass(frozen=True)
class Finding:
    check: str
    level: Level
    message: str
    witness: str | None = None


Answer = tuple[Level, str, object]
"""Level, message and witness of an analysis."""


def examine(pattern: ecl.Pattern, table: ecl.Table) -> list[Finding]:
    """Runs all analyses; one that needs too many states is reported as undecided."""
    analyses: dict[str, Callable[[], Iterable[Answer]]] = {
        "vacuity": lambda: [_vacuity(table)],
        "triviality": lambda: [_triviality(table)],
        "liveness": lambda: [_liveness(table)],
        "mode guards": lambda: _guards(pattern),
    }
    findings: list[Finding] = []
    for name, analyze in analyses.items():
        try:
            for level, message, witness in analyze():
                findings.append(Finding(name, level, message, None if witness is None else str(witness)))
        except ecl.StateLimitExceeded as error:
            findings.append(Finding(name, "info", f"undecided: {error}"))
    return findings


def _vacuity(table: ecl.Table) -> Answer:
    answer = ecl.vacuity(table)
    return ("problem", "it never produces output", None) if answer.vacuous else ("ok", "it can produce output", answer.witness)


def _triviality(table: ecl.Table) -> Answer:
    answer = ecl.triviality(table)
    if answer.trivial:
        return "warning", "it produces output on every event", None
    return "ok", "some events produce no output", answer.witness


def _liveness(table: ecl.Table) -> Answer:
    answer = ecl.liveness(table)
    if answer.live:
        return "ok", "whatever happens, output stays possible", None
    if answer.status is ecl.Status.WAITING:
        return "problem", "it can reach a state that waits forever and never produces output", answer.trap
    return "info", f"it can end, with {answer.status}; use repeat to continue", answer.trap


def _guards(pattern: ecl.Pattern) -> Iterator[Answer]:
    for overlap in ecl.overlapping_guards(pattern):
        both = f"{overlap.first} and {overlap.second} can hold on the same event"
        if overlap.decides:
            yield "warning", f"{both}; the mode that is listed first wins", overlap.witness
        else:
            yield "info", f"{both}; no third mode arms both", overlap.witness


US_PER_S = 1_000_000


@dataclass(frozen=True)
class Step:
    """One event, or time that passes (`type` is None)."""

    number: int | None
    type: str | None
    at_s: float
    outputs: list[str]
    moved: bool
    status: str
    captured: list[dict[str, object]] = field(default_factory=list)
    """What the registers hold after it, one entry per running instance."""


@dataclass(frozen=True)
class PatternRun:
    """The steps, and what can follow them."""

    steps: list[Step]
    waits_for: list[str]
    deadline_s: float | None
    shortest: str | None


def run_pattern(pattern: ecl.Pattern, events: tuple[ecl.Event, ...], *, until_s: float | None) -> PatternRun:
    table = ecl.compile(pattern)
    results = ecl.run_events(pattern, events)
    steps = [
        Step(
            n,
            run.event.type,
            run.event.time / US_PER_S,
            _tokens(run.outputs, run.event.time),
            run.changed,
            str(run.status),
            list(run.captured),
        )
        for n, run in enumerate(results, 1)
    ]
    now = events[-1].time if events else 0
    state = results[-1].state if results else ecl.start_state(table, now)
    if until_s is not None:
        until = round(until_s * US_PER_S)
        if until < now:
            raise Invalid(f"--until {until_s:g} is before the last event, at {now / US_PER_S:g} s")
        engine = ecl.table_engine(table)
        last = engine.start(events[0].time if events else 0)
        for event in events:
            last, _ = engine.step(last, event)
        later, outputs = engine.advance(last, until)
        instances = later if isinstance(later, tuple) else (cast(ecl.TableState, later),)
        captured = [table.program.show_state(instance.memory, until) for instance in instances] if table.program else []
        steps.append(Step(None, None, until_s, _tokens(outputs, until), later != last, str(engine.status(later)), captured))
        now = until
        state = instances[-1] if instances else ecl.start_state(table, now)
    deadline = ecl.next_deadline(state)
    try:
        trace = ecl.shortest_to_output(table, state, now=now)
        shortest = None if trace is None else str(trace)
    except ecl.StateLimitExceeded as error:
        shortest = f"undecided: {error}"
    return PatternRun(
        steps=steps,
        waits_for=[*ecl.waits_for(table, state).events, *["a timer"] * (deadline is not None)],
        deadline_s=None if deadline is None else deadline / US_PER_S,
        shortest=shortest,
    )


def _tokens(outputs: tuple[ecl.Output, ...], at: int) -> list[str]:
    """The tokens; outputs of timers with their own time."""
    return [output.token if output.time == at else f"{output.token} (at {output.time / US_PER_S:g} s)" for output in outputs]
