"""Both engines leave the same behind: firings, actions, outputs, states, derived events, in the same order."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headrace.db import Connection, Target, connect
from headrace.spark.pipeline import computing as _computing
from headrace.spark.pipeline import set_engine
from headrace.spark.source import ranges as _range
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


@pytest.mark.parametrize(
    ("seed", "events", "events_max", "short_max"), [(1, 300, 500_000, 20_000), (2, 120, 17, 20_000), (3, 90, 30, 0)]
)
async def test_engines_leave_the_same_behind(
    conn: Connection,
    database: Target,
    twin: Callable[[], Target],
    pipelines: Made,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
    events: int,
    events_max: int,
    short_max: int,
) -> None:
    """In one batch, in many, and in many that tasks read, the next one while the last is written."""
    for module in (_range, _computing):
        monkeypatch.setattr(module, "SHORT_MAX", short_max)
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
