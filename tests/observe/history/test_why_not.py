"""Why a rule did not fire on an event."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest
from psycopg.types.json import Jsonb

from headrace.core import UnknownEvent
from headrace.db import Connection
from headrace.observe.history import explain_rule
from headrace.rules import Rule, RuleEngine, create_rule
from tests.builders import drain, topic
from tests.rules.steps import settle

pytestmark = pytest.mark.lane("pg18")


def publish(conn: Connection, type_: str, payload: object, topic: str = "cars") -> UUID:
    row = conn.execute("select headrace.publish(%s, %s, %s)", (topic, type_, Jsonb(payload))).fetchone()
    drain(conn)
    assert row is not None
    return UUID(str(row[0]))


async def test_clauses_that_did_not_hold_are_shown_with_their_values(conn: Connection, reactor: RuleEngine) -> None:
    topic(conn, "cars")
    topic(conn, "bikes")
    before = publish(conn, "NEW", {"hp": 2000, "color": "red"})
    condition = "(object -> 'hp')::int > 1000 and object ->> 'color' = 'red'"
    create_rule(conn, Rule(name="fast", topic="cars", event_type="NEW", condition=condition, action="CALL"))
    await settle(reactor, conn)
    slow, other, fast = (
        publish(conn, "NEW", {"hp": 90, "color": "red"}),
        publish(conn, "OLD", {}),
        publish(conn, "NEW", {"hp": 1600, "color": "red"}),
    )
    elsewhere = publish(conn, "NEW", {}, topic="bikes")
    await settle(reactor, conn)
    answer = explain_rule(conn, "fast", slow)
    assert (answer.fired, answer.reason) == (False, "the condition is false")
    (clause,) = answer.failing
    assert (clause.text, clause.value, clause.parts[0].value) == ("(object -> 'hp')::int > 1000", "false", "90")
    assert explain_rule(conn, "fast", other).reason == "the rule is for type NEW, the event has type OLD"
    assert explain_rule(conn, "fast", fast).fired
    assert "active from position 2" in explain_rule(conn, "fast", before).reason
    assert explain_rule(conn, "fast", elsewhere).reason == "the rule reads topic cars, the event is in bikes"
    with pytest.raises(UnknownEvent):
        explain_rule(conn, "fast", uuid4())
