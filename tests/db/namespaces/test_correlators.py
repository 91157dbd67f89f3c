"""Correlators of a namespace: written by its admin, compiled and run by the owner, invisible to other namespaces."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from headrace.core import UnknownTopic
from headrace.correlators import (
    ActionOutput,
    Correlator,
    CorrelatorEngine,
    EventOutput,
    alter_correlator,
    create_correlator,
    drop_correlator,
    key_state,
)
from headrace.db import Connection, StopSignal, Subscription, Target, create_pool
from headrace.log.outbox import publish
from tests.builders import drain
from tests.correlators.steps import settle_correlators
from tests.db.namespaces.conftest import SignIn
from tests.db.namespaces.test_catalog import OPEN_TO_PUBLIC, UNPINNED, names
from tests.rules.conftest import REMEMBER

PAIR = Correlator(
    name="pair", topic="orders", key="key", pattern="repeat {push(x) {sequential {placed, placed}}}",
    outputs={"x": ActionOutput(action="NOTIFY")},
)  # fmt: skip
RELATIONS = ("correlator", "correlator_version", "correlator_table", "correlator_instance", "correlation", "correlator_state",
             "correlation_history")  # fmt: skip


@pytest.fixture
async def correlators(owner_conn: Connection, database: Target) -> AsyncIterator[CorrelatorEngine]:
    owner_conn.execute(REMEMBER + "select headrace_internal.secure();")
    own = create_pool(database, size=2)
    await own.open()
    yield CorrelatorEngine(own, Subscription("headrace_rule"), Subscription("headrace_log"), StopSignal())
    await own.close()


async def test_admin_writes_what_the_owner_runs_and_a_stranger_sees_nothing(
    owner_conn: Connection, sign_in: SignIn, correlators: CorrelatorEngine
) -> None:
    admin, publisher, reader, stranger = sign_in(a="admin"), sign_in(a="publish"), sign_in(a="consume"), sign_in(b="admin")
    create_correlator(admin, PAIR)
    await settle_correlators(correlators, owner_conn)
    for _ in range(2):
        publish(publisher, "orders", "placed", {}, key="k")
    drain(owner_conn)
    assert await settle_correlators(correlators, owner_conn) == 1
    assert owner_conn.execute("select namespace from public.sent").fetchall() == [("a",)]
    assert key_state(reader, "pair", "k") is not None
    for relation in RELATIONS:
        assert len(reader.execute(f"select from headrace.{relation}").fetchall()) == 1, relation
        assert stranger.execute(f"select from headrace.{relation}").fetchall() == [], relation
    assert (alter_correlator(admin, PAIR, restart=True)).restarted == 1
    await settle_correlators(correlators, owner_conn)
    assert names(owner_conn, OPEN_TO_PUBLIC) == [] and names(owner_conn, UNPINNED) == []
    drop_correlator(admin, "pair")
    await settle_correlators(correlators, owner_conn)
    assert names(owner_conn, "select correlator_id from headrace_internal.correlator_table") == []


def test_output_does_not_reach_a_topic_of_another_namespace(owner_conn: Connection, sign_in: SignIn) -> None:
    owner_conn.execute("select headrace.create_topic('elsewhere', p_namespace => 'b')")
    admin = sign_in(a="admin")
    with pytest.raises(UnknownTopic):
        out = {"x": EventOutput(event="e", topic="elsewhere")}
        create_correlator(admin, Correlator(name="out", topic="orders", pattern="push(x) {placed}", outputs=out))
