"""Transition counts: the newest events, stepped through the table again, take the edges that the engine took."""

from __future__ import annotations

from headrace import Headrace
from headrace.correlators import ActionOutput, Correlator, count_transitions, create_correlator
from headrace.db import Target
from headrace.log.topics import create_topic
from headrace.testing import Kit

PATTERN = "repeat {push(late) {sequential {placed and <(object ->> 'total')::int > 5>, fail {within 1 h {paid}}}}}"


def test_transitions_are_those_of_the_keys(database: Target) -> None:
    with Kit(database) as kit:
        create_topic(kit.conn, "orders", partitions=2)
        outputs = {"late": ActionOutput(action="REMIND")}
        create_correlator(kit.conn, Correlator(name="unpaid", topic="orders", pattern=PATTERN, key="key", outputs=outputs))
        assert count_transitions(kit.conn, "unpaid") is None, "nothing runs yet"
        for number in range(6):
            kit.publish("orders", "placed", {"total": number * 2}, key=f"k{number}")
        for number in (3, 5):
            kit.publish("orders", "paid", {}, key=f"k{number}")
        kit.run_until_idle_sync(Headrace())
        # Totals 6, 8 and 10 enter; 6 and 10 are paid.
        transitions = count_transitions(kit.conn, "unpaid")
        assert transitions is not None
        assert (transitions.events, transitions.keys, transitions.is_complete) == (8, 6, True)
        assert transitions.counts == {(0, 0, 1): 3, (0, 1, 0): 2}
        newest = count_transitions(kit.conn, "unpaid", events_max=2)
        assert newest is not None
        assert (newest.events, newest.is_complete, dict(newest.counts)) == (2, False, {}), (
            "a key starts with its first event there"
        )
