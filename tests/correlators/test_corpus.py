"""The database gives the corpus's answers, and the interpreter's on random patterns."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from headrace.correlators import run_cases
from headrace.correlators.corpus import Run, observe
from headrace.db import Target, connect, connect_async
from headrace.lang.condition import Sample
from headrace.lang.ecl import Event, Observation, Pattern, StateLimitExceeded, compile, load_corpus, print_pattern
from headrace.lang.ecl.interpreter import interpreter_of
from tests.examples import examples
from tests.lang.ecl.ecl_strategies import US, event_lists, patterns, payload_of
from tests.lang.ecl.register_patterns import captured_by, make_case

CORPUS = Path(__file__).parents[1] / "corpus"
CASES = [case for path in sorted(CORPUS.glob("ecl*.toml")) for case in load_corpus(path)]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


async def differences(database: Target, every: int) -> list[str]:
    conn = await connect_async(database)
    try:
        return [difference for difference in await run_cases(conn, CASES[::every]) if difference is not None]
    finally:
        await conn.close()


@pytest.mark.lane("pg18")
async def test_database_gives_the_answers_of_the_whole_corpus(database: Target) -> None:
    assert len(CASES) >= 400
    assert await differences(database, 1) == []


@pytest.mark.lane("pg15")
async def test_older_database_gives_the_same_answers(database: Target) -> None:
    assert await differences(database, 20) == []


def as_run(pattern: Pattern, events: list[Event]) -> Run:
    """The same events with payloads on which the conditions have the truths that were drawn."""

    def with_payload(event: Event) -> Event:
        truths = event.subject if isinstance(event.subject, dict) else {}
        emitted_at = EPOCH + timedelta(microseconds=event.time)
        return Event(event.type, event.time, Sample(payload_of(truths), event.type, emitted_at=emitted_at))

    return Run(print_pattern(pattern), [with_payload(event) for event in events], silence_us=20 * US)


def expected(pattern: Pattern, run: Run) -> Observation:
    """What the interpreter says about it."""
    engine = interpreter_of(pattern)
    state = engine.start(run.events[0].time if run.events else 0)
    outputs = []
    for event in run.events:
        state, pushed = engine.step(state, event)
        outputs.append(pushed)
    late = ()
    if run.events:
        state, late = engine.advance(state, run.events[-1].time + run.silence_us)
    captured = captured_by(pattern, run.events, run.silence_us) if run.events else ()
    return Observation(tuple(outputs), engine.status(state), late, captured)


PATTERNS, AT_ONCE = 300, 20
several = st.lists(st.tuples(patterns(), event_lists(max_size=10)), min_size=AT_ONCE, max_size=AT_ONCE)
QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example, HealthCheck.function_scoped_fixture]


@pytest.mark.lane("pg18")
@given(several)
@settings(max_examples=examples(120, PATTERNS) // AT_ONCE, deadline=None, suppress_health_check=QUIET)
def test_database_and_interpreter_agree_on_random_patterns(database: Target, drawn: list[tuple[Pattern, list[Event]]]) -> None:
    runs = [as_run(pattern, events) for pattern, events in drawn]
    for (pattern, _), run, seen in zip(drawn, runs, asyncio.run(observed(database, runs)), strict=True):
        assert seen == expected(pattern, run), run.pattern


def check_registers(database: Target, seeds: range) -> int:
    """Patterns that keep values give the interpreter's outputs; returns how many of them have registers."""
    cases, keeping = [], 0
    for seed in seeds:
        pattern, events = make_case(seed)
        try:
            keeping += compile(pattern).registers is not None
        except StateLimitExceeded:
            continue
        cases.append((pattern, Run(print_pattern(pattern), events, silence_us=20 * US)))
    for first in range(0, len(cases), AT_ONCE):
        some = cases[first : first + AT_ONCE]
        for (pattern, run), seen in zip(some, asyncio.run(observed(database, [run for _, run in some])), strict=True):
            assert seen == expected(pattern, run), run.pattern
    return keeping


@pytest.mark.lane("pg18")
def test_database_and_interpreter_agree_on_patterns_that_keep_values(database: Target) -> None:
    assert check_registers(database, range(40)) > 30


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.lane("pg18")
def test_database_and_interpreter_agree_on_ten_thousand_patterns_that_keep_values(database: Target) -> None:
    assert check_registers(database, range(1_000, 11_600)) >= 10_000


async def observed(database: Target, runs: list[Run]) -> list[Observation]:
    conn = await connect_async(database)
    try:
        return await observe(conn, runs)
    finally:
        await conn.close()


@pytest.mark.lane("pg18")
def test_seeded_bug_in_the_step_is_seen(database: Target) -> None:
    """The checker can fail: with an aggregate that stays at the start, the corpus differs."""
    with connect(database) as conn:
        conn.execute(
            """create or replace function
                   headrace_internal.next_cell(p_cell integer, p_rows integer[], p_start integer, p_symbol integer)
               returns integer language sql immutable as 'select coalesce(p_start, 0) + p_symbol'"""
        )
    assert asyncio.run(differences(database, 25)) != []


def test_nothing_is_left_behind(database: Target) -> None:
    asyncio.run(differences(database, 100))
    with connect(database) as conn:
        for left in (
            "headrace.correlator_version",
            "headrace.correlation",
            "headrace.topic",
            "pg_proc where proname ~ '^symbols_'",
        ):
            assert conn.execute(f"select count(*) from {left}").fetchone() == (0,), left
