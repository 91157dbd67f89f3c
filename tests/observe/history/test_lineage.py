"""Firings and outputs are kept as long as their event is in the log or in the archive."""

from __future__ import annotations

from datetime import timedelta

import pytest

from headrace.correlators import CorrelatorEngine
from headrace.db import Connection
from headrace.log.topics import create_topic, drop_topic, maintain_log, read_log
from headrace.rules import RuleEngine
from tests.builders import rows_read, shift_clock
from tests.correlators.steps import happen, settle_correlators
from tests.rules.steps import settle, write

DAYS = 4


@pytest.fixture
def daily(conn: Connection) -> Connection:
    """A topic with a retention of two days."""
    create_topic(conn, "cars", time_partition="day", retention=timedelta(days=2))
    return conn


async def react_for_days(daily: Connection, reactor: RuleEngine, correlators: CorrelatorEngine) -> None:
    """Publishes an event a day, on which a rule and a correlator fire; retention drops all but the last days."""
    write(daily, "every", "true", type="a")
    daily.execute(
        """insert into headrace.correlator (correlator, topic, key, pattern)
           values ('every', 'cars', 'key', 'repeat {push(x) {sequential {a}}}')"""
    )
    for day in range(DAYS):
        shift_clock(daily, f"{day} days")
        happen(daily, "a:k")
        await settle(reactor, daily)
        await settle_correlators(correlators, daily)
    assert (fired(daily), pushed(daily)) == ([1, 2, 3, 4], [1, 2, 3, 4])
    shift_clock(daily, f"{DAYS} days")
    maintain_log(daily)
    assert [event.position for event in read_log(daily, "cars")] == [3, 4]


def fired(conn: Connection) -> list[int]:
    return [row[0] for row in conn.execute("select position from headrace.firing order by position").fetchall()]


def pushed(conn: Connection) -> list[int]:
    return [row[0] for row in conn.execute("select position from headrace.correlation order by position").fetchall()]


def forget(conn: Connection, arguments: str = "") -> int:
    (forgotten,) = conn.execute(f"select headrace_internal.forget_lineage({arguments})").fetchone()  # type: ignore[misc]
    return int(forgotten)


async def test_lineage_is_deleted_with_its_events(daily: Connection, reactor: RuleEngine, correlators: CorrelatorEngine) -> None:
    await react_for_days(daily, reactor, correlators)
    assert forget(daily) == 4
    assert (fired(daily), pushed(daily)) == ([3, 4], [3, 4])
    assert (await settle(reactor, daily), await settle_correlators(correlators, daily), forget(daily)) == (0, 0, 0)


async def test_lineage_of_archived_events_is_kept(daily: Connection, reactor: RuleEngine, correlators: CorrelatorEngine) -> None:
    await react_for_days(daily, reactor, correlators)
    daily.execute(
        """insert into headrace_internal.archive
               (topic_id, day, first_position, last_position, first_at, last_at, events, checksum, folder, file, file_bytes)
           select 1, current_date + 1, 2, 2, now() + interval '1 day', now() + interval '1 day', 1, 0, 'folder', 'file', 1"""
    )
    assert forget(daily) == 2
    assert (fired(daily), pushed(daily)) == ([2, 3, 4], [2, 3, 4])


async def test_lineage_is_deleted_with_its_topic(daily: Connection, reactor: RuleEngine, correlators: CorrelatorEngine) -> None:
    await react_for_days(daily, reactor, correlators)
    create_topic(daily, "bikes")
    daily.execute("update headrace_internal.firing set topic_id = 2 where position = 4")
    daily.execute("update headrace_internal.firing set position = null where position = 3")
    drop_topic(daily, "cars", force=True)
    forget(daily)
    assert (fired(daily), pushed(daily)) == ([4], [])


async def test_outputs_of_timers_are_deleted_with_the_events_of_their_time(
    daily: Connection, reactor: RuleEngine, correlators: CorrelatorEngine
) -> None:
    await react_for_days(daily, reactor, correlators)
    daily.execute("delete from headrace_internal.firing; delete from headrace_internal.correlation")
    daily.execute(
        """insert into headrace_internal.correlation
               (topic_id, version_id, key, token, output_at, place, evidence, evidence_total, output_id)
           select 1, 1, 'k', 'x', headrace.clock() - n * interval '1 day', 1, '{}', 0, gen_random_uuid()
           from generate_series(0, 5) n"""
    )
    assert forget(daily) == 3
    (oldest,) = daily.execute("select max(headrace.clock() - output_at) from headrace.correlation").fetchone()  # type: ignore[misc]
    assert oldest // timedelta(days=1) == 2


@pytest.mark.parametrize("analyzed", [False, True])
async def test_deletion_reads_only_the_rows_it_deletes_batch_by_batch(
    daily: Connection, reactor: RuleEngine, correlators: CorrelatorEngine, analyzed: bool
) -> None:
    await react_for_days(daily, reactor, correlators)
    daily.execute("delete from headrace_internal.firing; delete from headrace_internal.correlation")
    daily.execute(
        """insert into headrace_internal.firing (topic_id, position, event_id, rule_version_id, action, action_id)
           select 1, case when n %% 100 = 0 then 1 else 3 end, gen_random_uuid(), 1, 'act', gen_random_uuid()
           from generate_series(1, %s) n""",
        (20_000,),
    )
    daily.execute("vacuum headrace_internal.firing")
    if analyzed:
        daily.execute("analyze headrace_internal.firing")
    with daily.transaction():
        before = rows_read(daily, "firing")
        assert forget(daily, "p_piece => 50, p_time_max => '0 s'") == 50
        # Once to find them, once to delete them.
        assert rows_read(daily, "firing") - before <= 2 * 50 + 20
    assert forget(daily, "p_piece => 50") == 150


async def test_two_nodes_delete_lineage_without_waiting_for_each_other(
    daily: Connection, second: Connection, reactor: RuleEngine, correlators: CorrelatorEngine
) -> None:
    await react_for_days(daily, reactor, correlators)
    second.execute("set lock_timeout = '1 s'")
    with daily.transaction():
        assert forget(daily, "p_piece => 1, p_time_max => '0 s'") == 2
        assert forget(second) == 2
    assert (fired(daily), pushed(daily)) == ([3, 4], [3, 4])
