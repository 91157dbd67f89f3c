"""Timers fire at their deadline: before events of that time or later, after all earlier ones, also when no event comes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.correlators import ActionOutput, Correlator, CorrelatorEngine, EventOutput, alter_correlator, create_correlator
from headrace.db import Connection
from headrace.log.outbox import publish
from tests.builders import drain, shift_clock, topic
from tests.correlators.steps import happen, pushed, settle_correlators
from tests.rules.steps import sent

LATE = "repeat {push(late) {sequential {departed, fail {within 10 s {arrived}}}}}"
DUE = "select (deadline - started_at)::text from headrace.correlator_instance order by key"


@pytest.fixture
async def flights(conn: Connection, correlators: CorrelatorEngine) -> Connection:
    """A correlator whose session clock the test moves: the correlators' own sessions go by the setting of the database."""
    topic(conn, "cars")
    late = Correlator(name="late", topic="cars", key="key", pattern=LATE, outputs={"late": ActionOutput(action="LATE")})
    create_correlator(conn, late)
    await settle_correlators(correlators, conn)
    return conn


async def wait(conn: Connection, correlators: CorrelatorEngine, by: str) -> None:
    """Moves the clock of all sessions."""
    shift_clock(conn, by)
    async with correlators._pool.connection() as own:
        await own.execute("select set_config('headrace.clock_shift', %s, false)", (by,))


async def test_timer_fires_though_no_event_comes_and_carries_its_deadline(
    flights: Connection, correlators: CorrelatorEngine
) -> None:
    happen(flights, "departed:k")
    assert await settle_correlators(correlators, flights) == 0
    await wait(flights, correlators, "1 minute")
    assert await settle_correlators(correlators, flights) == 1
    assert pushed(flights) == [("late", 1, "k", "late", None, [1])]
    at = "select (c.output_at - l.appended_at)::text from headrace.correlation c, headrace.log l"
    assert flights.execute(at).fetchone() == ("00:00:10",)
    assert await settle_correlators(correlators, flights) == 0


async def test_output_of_a_timer_quotes_the_event_that_started_the_instance_and_names_the_evidence(
    conn: Connection, correlators: CorrelatorEngine
) -> None:
    topic(conn, "cars")
    topic(conn, "alerts")
    pattern = "repeat {push(late) {sequential {departed, landed, fail {within 10 s {arrived}}}}}"
    outputs = {"late": EventOutput(event="flight.late", topic="alerts")}
    late = Correlator(name="late", topic="cars", key="key", pattern=pattern, outputs=outputs)
    create_correlator(conn, late)
    create_correlator(conn, replace(late, name="calls", outputs={"late": ActionOutput(action="LATE")}))
    create_correlator(conn, replace(late, name="cut", outputs={"late": ActionOutput(action="CUT")}, evidence_max=1))
    await settle_correlators(correlators, conn)
    first, second = (publish(conn, "cars", type, {"n": n}, key="k") for n, type in ((1, "departed"), (2, "landed")))
    drain(conn)
    await settle_correlators(correlators, conn)
    await wait(conn, correlators, "1 minute")
    await settle_correlators(correlators, conn)
    [(event,)] = conn.execute("select payload from headrace.outbox").fetchall()
    actions = {action["action"]: action["payload"] for action in sent(conn)}
    for payload in (event, actions["LATE"]):
        assert (payload["position"], payload["type"], payload["payload"], payload["evidence"]) == (
            None,
            "departed",
            {"n": 1},
            [1, 2],
        )
        assert payload["evidence_ids"] == [str(first), str(second)]
    cut = actions["CUT"]
    assert (cut["payload"], cut["evidence_ids"]) == (None, [str(second)]), "the evidence no longer holds what started it"


async def test_timer_due_before_an_event_fires_before_it(flights: Connection, correlators: CorrelatorEngine) -> None:
    happen(flights, "departed:k")
    await wait(flights, correlators, "1 minute")
    happen(flights, "arrived:k")
    await settle_correlators(correlators, flights)
    assert [row[3:] for row in pushed(flights)] == [("late", None, [1])]


async def test_event_in_time_is_never_overtaken_by_the_timer_however_late_it_is_read(
    flights: Connection, correlators: CorrelatorEngine
) -> None:
    happen(flights, "departed:k")
    await settle_correlators(correlators, flights)
    happen(flights, "arrived:k")
    await wait(flights, correlators, "1 minute")
    (watched,) = await correlators.watched()
    # The event is in the log and not yet passed: the timer has to wait for it.
    assert await correlators.tick_once(watched) == 0
    assert await settle_correlators(correlators, flights) == 0
    assert pushed(flights) == []


async def test_timer_waits_for_a_sequencer_that_is_at_work(
    flights: Connection, second: Connection, correlators: CorrelatorEngine
) -> None:
    """Its events have an earlier time than the deadline, and are not to be seen yet."""
    happen(flights, "departed:k")
    await settle_correlators(correlators, flights)
    flights.execute("select headrace.publish('cars', 'arrived', '1', p_key => 'k')")
    (watched,) = await correlators.watched()
    with second.transaction():
        second.execute("select * from headrace.sequence()")
        await wait(flights, correlators, "1 minute")
        assert await correlators.tick_once(watched) == 0
    assert await settle_correlators(correlators, flights) == 0


async def late_sequencer(flights: Connection, second: Connection, correlators: CorrelatorEngine) -> tuple[object, object]:
    """A timer fires; then a sequencer appends an event, by a clock that is a minute behind. The times of both."""
    happen(flights, "departed:k")
    await settle_correlators(correlators, flights)
    await wait(flights, correlators, "1 minute")
    assert await settle_correlators(correlators, flights) == 1
    yield_floor(flights)
    second.execute("select headrace.publish('cars', 'arrived', '1', p_key => 'k')")
    second.execute("select * from headrace.sequence()")
    row = flights.execute("select max(l.appended_at), max(c.output_at) from headrace.log l, headrace.correlation c").fetchone()
    assert row is not None
    return row[0], row[1]


def yield_floor(flights: Connection) -> None:
    """Where a seeded bug strikes: see below."""


async def test_no_event_gets_a_time_before_a_timer_that_has_fired(
    flights: Connection, second: Connection, correlators: CorrelatorEngine
) -> None:
    event_at, timer_at = await late_sequencer(flights, second, correlators)
    assert event_at >= timer_at  # type: ignore[operator]


async def test_without_the_topic_s_floor_an_event_would_come_before_a_fired_timer(
    flights: Connection, second: Connection, correlators: CorrelatorEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test above can fail: with the floor taken away the event's time is before the timer's."""

    def without(conn: Connection) -> None:
        conn.execute("update headrace_internal.topic set timers_to = null")

    monkeypatch.setattr(f"{__name__}.yield_floor", without)
    event_at, timer_at = await late_sequencer(flights, second, correlators)
    assert event_at < timer_at  # type: ignore[operator]


async def test_chain_of_timers_keeps_its_beat_in_bounded_transactions(
    flights: Connection, correlators: CorrelatorEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(correlators._stepper, "_ticks_max", 7)
    beat = Correlator(name="beat", topic="cars", pattern="repeat {push(beat) {after 1 s}}")
    create_correlator(flights, beat)
    await settle_correlators(correlators, flights)
    happen(flights, "z")
    await settle_correlators(correlators, flights)
    await wait(flights, correlators, "30 seconds")
    happen(flights, "z")
    (beating,) = [one for one in await correlators.watched() if one.correlator == "beat"]
    first = await correlators.step_once(beating)
    # The event is not taken before its timers have fired.
    assert first is not None and (first.events, first.outputs) == (0, 7)
    await settle_correlators(correlators, flights)
    rows = flights.execute(
        "select extract(epoch from output_at - min(output_at) over ())::int from headrace.correlation order by 1"
    )
    beats = [row[0] for row in rows.fetchall()]
    assert beats == list(range(len(beats))) and len(beats) >= 30


async def test_running_timers_are_carried_over_to_an_equivalent_pattern(
    flights: Connection, correlators: CorrelatorEngine
) -> None:
    happen(flights, "departed:k")
    await settle_correlators(correlators, flights)
    before = flights.execute(DUE).fetchall()
    same = LATE.replace("within 10 s {arrived}", "do {arrived} unless {after 10 s}").replace("departed", "(departed or departed)")
    carry_over = alter_correlator(
        flights, Correlator(name="late", topic="cars", key="key", pattern=same, outputs={"late": ActionOutput(action="OTHER")})
    )
    assert (carry_over.carried, carry_over.restarted) == (1, 0)
    await settle_correlators(correlators, flights)
    assert flights.execute(DUE).fetchall() == before == [("00:00:10",)]
    await wait(flights, correlators, "1 minute")
    assert await settle_correlators(correlators, flights) == 1
    assert pushed(flights)[0][:2] == ("late", 2)
