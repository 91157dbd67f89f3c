"""One shard down: the nodes go on with the other, and what was published to the dead one comes through when it is back."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.db import Connection, Server, Target, connect, migrate
from headrace.prove._actor import Orders
from headrace.prove._cast import Cast
from headrace.prove._check_log import acknowledged_is_logged, positions_without_gaps, producer_order_per_key
from headrace.prove._check_reaction import consumed_once, effects_once, firings_are_the_rules, outputs_are_the_replay
from headrace.prove._final import read_evidence, read_operations
from headrace.prove._run import _left_over
from headrace.prove._verdict import Verdict
from headrace.prove._workload import SCHEDULE, furnish
from headrace.schedule import pause_schedule
from tests.builders import wait_until
from tests.conftest import temporary_folder

pytestmark = [pytest.mark.timeout(200), pytest.mark.xdist_group("prove")]
CHECKS = (
    acknowledged_is_logged, positions_without_gaps, producer_order_per_key, consumed_once, effects_once, firings_are_the_rules,
    outputs_are_the_replay,
)  # fmt: skip


@pytest.fixture
def shards() -> Iterator[list[Server]]:
    """Two servers with the workload's topics, rules and correlators on each."""
    servers = [Server(temporary_folder(), settings={"fsync": "off"}) for _ in range(2)]
    try:
        for server in servers:
            server.start()
            with connect(Target("shard", server.dsn())) as conn:
                migrate(conn)
                furnish(conn, minutes=0.1)
        yield servers
    finally:
        for server in servers:
            server.stop()
            shutil.rmtree(server.folder)


def consumed(server: Server) -> int:
    with connect(Target("shard", server.dsn())) as conn:
        row = conn.execute("select count(*) from headrace_prove.consumed where consumer = 'ledger'").fetchone()
    assert row is not None
    return int(row[0])


def judged(conn: Connection, folder: Path, producer: str) -> list[Verdict]:
    row = conn.execute("select headrace.clock()").fetchone()
    assert row is not None
    evidence = read_evidence(conn, folder, drained_at=row[0])
    own = [one for one in read_operations(folder, "producer") if one.producer == producer]
    return [check(evidence.__class__(**{**vars(evidence), "operations": own})) for check in CHECKS]


def test_one_shard_down_stops_no_other_and_it_catches_up(shards: list[Server], tmp_path: Path) -> None:
    one, other = shards
    cast = Cast(tmp_path)
    told = {"folder": str(tmp_path), "seed": 5, "rate": 60.0}
    try:
        for number in (1, 2):
            cast.add("node", Orders(name=f"node-{number}", dsn=one.dsn(), shards=(other.dsn(),), **told))  # type: ignore[arg-type]
        cast.add("producer", Orders(name="producer-1", dsn=one.dsn(), **told))  # type: ignore[arg-type]
        cast.add("producer", Orders(name="producer-2", dsn=other.dsn(), **told))  # type: ignore[arg-type]
        wait_until(lambda: min(consumed(one), consumed(other)) > 20, "handling on both shards")
        other.kill()
        seen = consumed(one)
        wait_until(lambda: consumed(one) > seen + 100, "handling beside the dead shard", timeout_s=30)
        other.start()
        back = consumed(other)
        wait_until(lambda: consumed(other) > back + 50, "handling on the shard that is back")
        cast.end("producer")
        for server, producer in ((one, "producer-1"), (other, "producer-2")):
            with connect(Target("shard", server.dsn())) as conn:
                pause_schedule(conn, SCHEDULE)
                wait_until(lambda conn=conn: not any(_left_over(conn).values()), "working everything off")  # type: ignore[misc]
                for verdict in judged(conn, tmp_path, producer):
                    assert verdict.holds and verdict.examined, f"{verdict.check}: {verdict.smallest}"
        cast.end("node")
        assert cast.unexpected == []
    finally:
        cast.end_all()
