"""The steps of `headrace ecl run`: what each event does, later timers, and what can come next."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

from headrace.core import Invalid
from headrace.lang import ecl

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
    """Runs the events, then advances the time to `until_s`."""
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
    return PatternRun(
        steps=steps,
        waits_for=[*ecl.waits_for(table, state).events, *["a timer"] * (deadline is not None)],
        deadline_s=None if deadline is None else deadline / US_PER_S,
        shortest=_shortest(table, state, now),
    )


def _tokens(outputs: tuple[ecl.Output, ...], at: int) -> list[str]:
    """The tokens; outputs of timers with their own time."""
    return [output.token if output.time == at else f"{output.token} (at {output.time / US_PER_S:g} s)" for output in outputs]


def _shortest(table: ecl.Table, state: ecl.TableState, now: int) -> str | None:
    try:
        trace = ecl.shortest_to_output(table, state, now=now)
    except ecl.StateLimitExceeded as error:
        return f"undecided: {error}"
    return None if trace is None else str(trace)
