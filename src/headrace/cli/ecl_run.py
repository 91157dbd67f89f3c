"""What `ecl run` shows: each event taken, timers that came later, and what could come next."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.core import Invalid
from headrace.lang.ecl import (
    Event,
    Output,
    Pattern,
    StateLimitExceeded,
    Table,
    TableState,
    advance_state,
    compile,
    next_deadline,
    run_events,
    shortest_to_output,
    start_state,
    status_of,
    waits_for,
)

US_PER_S = 1_000_000


@dataclass(frozen=True)
class Step:
    """One event, or time that went on (`type` None)."""

    number: int | None
    type: str | None
    at_s: float
    outputs: list[str]
    moved: bool
    status: str


@dataclass(frozen=True)
class Ran:
    """The steps, and where they lead."""

    steps: list[Step]
    waits_for: list[str]
    deadline_s: float | None
    shortest: str | None


def run_to(pattern: Pattern, events: tuple[Event, ...], *, until_s: float | None) -> Ran:
    """Runs the events, then lets time go on to `until_s`."""
    table = compile(pattern)
    ran = run_events(pattern, events)
    steps = [
        Step(number, one.event.type, one.event.time / US_PER_S, _tokens(one.outputs, one.event.time), one.moved, str(one.status))
        for number, one in enumerate(ran, 1)
    ]
    now = events[-1].time if events else 0
    state = ran[-1].state if ran else start_state(table, now)
    if until_s is not None:
        until = round(until_s * US_PER_S)
        if until < now:
            raise Invalid(f"--until {until_s:g} is before the last event, at {now / US_PER_S:g} s")
        later, outputs = advance_state(table, state, until)
        steps.append(Step(None, None, until_s, _tokens(outputs, until), later != state, str(status_of(table, later))))
        state, now = later, until
    deadline = next_deadline(state)
    waits = waits_for(table, state)
    return Ran(
        steps=steps,
        waits_for=list(waits.events) + ["a timer"] * (deadline is not None),
        deadline_s=None if deadline is None else deadline / US_PER_S,
        shortest=_shortest(table, state, now),
    )


def _tokens(outputs: tuple[Output, ...], at: int) -> list[str]:
    """The tokens; those of timers with their own time."""
    return [one.token if one.time == at else f"{one.token} (at {one.time / US_PER_S:g} s)" for one in outputs]


def _shortest(table: Table, state: TableState, now: int) -> str | None:
    try:
        trace = shortest_to_output(table, state, now=now)
    except StateLimitExceeded as error:
        return f"not decided: {error}"
    return None if trace is None else str(trace)
