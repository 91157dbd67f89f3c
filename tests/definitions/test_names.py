"""Unregistered event types and actions are rejected, warned of, or allowed, as the namespace says."""

from __future__ import annotations

import pytest

from headrace.core import UnregisteredName
from headrace.db import Connection
from headrace.rules import Rule, alter_rule, create_rule, list_rules
from tests.builders import topic

CAR = Rule(name="fast", topic="cars", event_type="NEW_CAR", condition="true", action="NOTIFY")


@pytest.fixture
def cars(conn: Connection) -> Connection:
    topic(conn, "cars")
    return conn


def policy(conn: Connection, policy: str) -> None:
    conn.execute("update headrace_internal.namespace set unknown_names = %s", (policy,))


def test_unknown_names_are_rejected_if_the_namespace_says_so(cars: Connection) -> None:
    policy(cars, "refuse")
    with pytest.raises(UnregisteredName, match='event type "NEW_CAR" and action "NOTIFY"'):
        create_rule(cars, CAR)
    cars.execute("insert into headrace.event_type (event_type) values ('NEW_CAR')")
    with pytest.raises(UnregisteredName, match='does not know action "NOTIFY"'):
        create_rule(cars, CAR)
    cars.execute("insert into headrace.action (action) values ('NOTIFY')")
    create_rule(cars, CAR)
    with pytest.raises(UnregisteredName, match="NEW_BOAT"):
        alter_rule(cars, Rule(**{**CAR.__dict__, "event_type": "NEW_BOAT"}))


def test_unknown_names_are_warned_of_until_they_are_registered(cars: Connection) -> None:
    policy(cars, "warn")
    warnings: list[str | None] = []
    cars.add_notice_handler(lambda notice: warnings.append(notice.message_primary))
    create_rule(cars, CAR)
    assert warnings == ['namespace "default" does not know event type "NEW_CAR" and action "NOTIFY"']
    assert list_rules(cars)[0].warning == 'event type "NEW_CAR" is not registered; action "NOTIFY" is not registered'
    cars.execute("insert into headrace.event_type (event_type) values ('NEW_CAR')")
    cars.execute("insert into headrace.action (action) values ('NOTIFY')")
    assert list_rules(cars)[0].warning is None


def test_unknown_names_pass_if_they_are_allowed(cars: Connection) -> None:
    policy(cars, "allow")
    create_rule(cars, CAR)
    assert list_rules(cars)[0].warning is None


def test_namespaces_warn_by_default(cars: Connection) -> None:
    cars.execute("insert into headrace_internal.namespace (namespace) values ('other')")
    row = cars.execute("select unknown_names from headrace.namespace where namespace = 'other'").fetchone()
    assert row == ("warn",)
