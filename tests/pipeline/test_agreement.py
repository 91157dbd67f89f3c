"""Both engines leave the same behind: firings, actions, outputs, states, derived events, in the same order."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headrace.db import Connection, Target, connect
from headrace.pipeline import set_engine
from tests.builders import topic

from .conftest import Made
from .steps import compile_everything, differing, happen, looks, run_database, run_spark, write_all

pytestmark = pytest.mark.lane("pg18")


async def prepared(conn: Connection, database: Target, *, events: int, seed: int) -> None:
    topic(conn, "cars")
    topic(conn, "derived")
    write_all(conn)
    await compile_everything(database)
    happen(conn, events, seed=seed)


@pytest.mark.parametrize(("seed", "events", "events_max"), [(1, 300, 500_000), (2, 120, 17)])
async def test_engines_leave_the_same_behind(
    conn: Connection, database: Target, twin: Callable[[], Target], pipelines: Made, seed: int, events: int, events_max: int
) -> None:
    await prepared(conn, database, events=events, seed=seed)
    conn.close()
    other = twin()
    await run_database(database)
    with connect(database) as ours, connect(other) as theirs:
        set_engine(theirs, "cars", "spark")
        run_spark(pipelines(other, theirs, events_max=events_max))
        by_database, by_spark = looks(ours), looks(theirs)
    assert list(differing(by_database, by_spark)) == []
    assert min(len(by_spark[name]) for name in ("firings", "correlations", "instances", "derived")) > 5
    assert any(row[2] is None for row in by_spark["correlations"]), "no timer fired"
