"""Effects through an ORM session happen exactly once, whatever is killed: as for psycopg in tests/node and tests/actions."""

from __future__ import annotations

import signal
import subprocess

import pytest

from headrace.db import Connection, Target
from tests.builders import fill, start_python, topic, wait_until
from tests.integrations.models import CREATE

pytestmark = [pytest.mark.lane("pg18"), pytest.mark.timeout(120)]

# Events have the payloads from 1 on, actions those from ACTIONS + 1 on.
ACTIONS = 10_000
SIZES = {"AsyncSession": 200, "async_sessionmaker-asyncpg": 100, "Session": 60, "django": 60, "asyncpg": 60}


def start(database: Target, name: str, kind: str, deadly: int = 0) -> subprocess.Popen[str]:
    return start_python("tests.integrations.processes", database.dsn, name, kind, str(deadly))


def send(conn: Connection, first: int, last: int) -> None:
    statement = "select count(headrace.send_action('work', to_jsonb(n))) from generate_series(%s::int, %s::int) n"
    conn.execute(statement, (first, last))


def count(conn: Connection) -> int:
    row = conn.execute("select count(distinct n) from effect").fetchone()
    assert row is not None
    return int(row[0])


# One of each kind of connection in every run: asynchronous, synchronous, asyncpg's own.
USUAL = ("AsyncSession", "django", "asyncpg")


@pytest.mark.parametrize(
    "kind", [kind if kind in USUAL else pytest.param(kind, marks=pytest.mark.slow) for kind in SIZES], ids=str
)
def test_effects_of_killed_nodes_happen_exactly_once(conn: Connection, database: Target, kind: str) -> None:
    """The first two nodes die between a handler's effect and its commit, one at an event, one at an action; the third is killed at
    any moment; the fourth does the rest."""
    size = SIZES[kind]
    topic(conn)
    conn.execute(CREATE)
    fill(conn, size)
    conn.execute("alter table effect drop constraint effect_n_is_allowed")
    node = None
    try:
        node = start(database, "n1", kind, size // 2)
        assert node.wait(60) == -signal.SIGKILL
        send(conn, ACTIONS + 1, ACTIONS + size)
        node = start(database, "n2", kind, ACTIONS + size // 2)
        assert node.wait(60) == -signal.SIGKILL
        seen = count(conn)
        node = start(database, "n3", kind)
        wait_until(lambda: count(conn) > seen or count(conn) == 2 * size, "progress of the third node")
        node.kill()
        node.wait()
        node = start(database, "n4", kind)
        wait_until(lambda: count(conn) == 2 * size, "every effect")
        wait_until(lambda: conn.execute("select from pgmq.q_hr_default").fetchone() is None, "an empty queue")
    finally:
        if node is not None:
            node.kill()
            node.wait()
    repeated = conn.execute("select n, count(*) from effect group by n having count(*) > 1").fetchall()
    assert repeated == []
    assert conn.execute("select count(*) from effect").fetchone() == (2 * size,)
