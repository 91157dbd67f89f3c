"""`correlator why-not` and `rule why-not`: what stood in the way of an output or an action."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.core import UnknownEvent
from headrace.correlators import (
    ActionOutput,
    Correlator,
    CorrelatorEngine,
    alter_correlator,
    create_correlator,
    explain_silence,
    key_state,
    list_correlators,
)
from headrace.db import Connection
from headrace.lang.ecl import Change
from tests.builders import topic
from tests.correlators.steps import happen, settle_correlators
from tests.rules.steps import sent

pytestmark = pytest.mark.lane("pg18")
PATTERN = "capture amount = (object -> 'amount')::int; repeat {push(x) {sequential {a as t, b and <amount > t.amount>}}}"


async def test_key_without_output_is_explained_by_the_smallest_change(conn: Connection, correlators: CorrelatorEngine) -> None:
    topic(conn, "cars")
    outputs = {"x": ActionOutput(action="ALARM")}
    create_correlator(conn, Correlator(name="more", topic="cars", pattern=PATTERN, key="object ->> 'car'", outputs=outputs))
    await settle_correlators(correlators, conn)
    payloads = [{"car": "c1", "amount": 7}, {"car": "c2", "amount": 1}, {"car": "c1", "amount": 5}, {"car": "c2", "amount": 2}]
    happen(conn, "a a b b", payloads=payloads)
    assert await settle_correlators(correlators, conn) == 1
    answer = explain_silence(conn, "more", "c1")
    assert [(step.position, step.type, step.moved) for step in answer.steps] == [(1, "a", True), (3, "b", False)]
    assert (answer.outputs, answer.changes[0].change, answer.changes[0].position) == (0, Change.CONDITION, 3)
    values = "(object -> 'amount')::int = 5, t.amount = 7"
    assert answer.changes[0].text == f"<(object -> 'amount')::int > t.amount> would have to be true; {values}"
    loud = explain_silence(conn, "more", "c2")
    assert (loud.outputs, loud.changes) == (1, ())


async def test_output_of_the_running_correlator_carries_what_it_captured(conn: Connection, correlators: CorrelatorEngine) -> None:
    topic(conn, "cars")
    outputs = {"x": ActionOutput(action="ALARM")}
    create_correlator(conn, Correlator(name="more", topic="cars", pattern=PATTERN, key="key", outputs=outputs))
    await settle_correlators(correlators, conn)
    for event, amount in (("a:k", 7), ("b:k", 9)):
        # One batch each: the registers are stored in between.
        happen(conn, event, payloads=[{"amount": amount}])
        await settle_correlators(correlators, conn)
    assert conn.execute("select captured from headrace.correlation_history").fetchone() == ({"t.amount": 7},)
    (action,) = sent(conn)
    assert action["payload"]["captured"] == {"t.amount": 7}


async def test_key_that_has_kept_a_value_continues_only_where_the_new_pattern_is_provably_equal(
    conn: Connection, correlators: CorrelatorEngine
) -> None:
    topic(conn, "cars")
    outputs = {"x": ActionOutput(action="ALARM")}
    more = Correlator(name="more", topic="cars", pattern=PATTERN, key="key", outputs=outputs)
    create_correlator(conn, more)
    await settle_correlators(correlators, conn)
    happen(conn, "a:k", payloads=[{"amount": 7}])
    await settle_correlators(correlators, conn)
    state = key_state(conn, "more", "k")
    assert state is not None and (state.captured, state.evidence) == (({"t.amount": 7},), (1,))
    # The same states in another order: the row of the key changes, its registers do not.
    nested = PATTERN.replace("{a as t, b", "{sequential {a as t}, sequential {fail {fail {b").replace("t.amount>", "t.amount>}}}")
    for pattern, carried in ((nested, 1), (PATTERN, 1), (PATTERN.replace("'amount'", "'price'"), 0)):
        effect = alter_correlator(conn, replace(more, pattern=pattern))
        await settle_correlators(correlators, conn)
        (listed,) = list_correlators(conn)
        assert (effect.carried, listed.carried, listed.restarted) == (carried, carried, 1 - carried)
        if carried:
            state = key_state(conn, "more", "k")
            assert state is not None and state.captured == ({"t.amount": 7},)
    happen(conn, "b:k", payloads=[{"amount": 9, "price": 9}])
    assert await settle_correlators(correlators, conn) == 0


async def test_each_running_instance_shows_what_it_has_kept(conn: Connection, correlators: CorrelatorEngine) -> None:
    topic(conn, "cars")
    pattern = PATTERN.replace("repeat {push", "each {push")
    create_correlator(conn, Correlator(name="more", topic="cars", pattern=pattern, key="key"))
    await settle_correlators(correlators, conn)
    happen(conn, "a:k a:k", payloads=[{"amount": 7}, {"amount": 9}])
    await settle_correlators(correlators, conn)
    state = key_state(conn, "more", "k")
    assert state is not None
    assert (state.captured, state.evidence) == (({"t.amount": 7}, {"t.amount": 9}), (2,))
    assert state.waits_for.types == ("b",)


def test_key_without_events_is_an_error_that_says_where_it_looked(conn: Connection) -> None:
    topic(conn, "cars")
    create_correlator(conn, Correlator(name="more", topic="cars", pattern="push(x) {a}", key="key"))
    with pytest.raises(UnknownEvent, match="no event has key 'k9' in the newest 100000 events of topic cars"):
        explain_silence(conn, "more", "k9")
