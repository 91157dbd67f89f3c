"""Both engines produce the same firings, actions, outputs, states and derived events, in the same order."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headrace.db import Connection, Target, connect
from headrace.spark.frames import classified_events
from headrace.spark.pipeline import computation, set_engine
from headrace.spark.source import range_reader
from tests.builders import topic

from .conftest import MakePipeline
from .steps import append_events, compile_everything, differences, read_results, run_database, run_spark, write_all

pytestmark = pytest.mark.lane("pg18")


async def prepare(conn: Connection, database: Target, *, events: int, seed: int) -> None:
    topic(conn, "cars")
    topic(conn, "derived")
    write_all(conn)
    await compile_everything(database)
    append_events(conn, events, seed=seed)


@pytest.mark.parametrize(
    ("seed", "events", "events_max", "short_max"), [(1, 300, 500_000, 20_000), (2, 80, 23, 20_000), (3, 80, 45, 0)]
)
async def test_engines_produce_the_same_results(
    conn: Connection,
    database: Target,
    copy_database: Callable[[], Target],
    make_pipeline: MakePipeline,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
    events: int,
    events_max: int,
    short_max: int,
) -> None:
    """In one batch, in many, and in many that tasks read, each computed while the one before is written."""
    for module in (range_reader, classified_events, computation):
        monkeypatch.setattr(module, "SHORT_MAX", short_max)
    await prepare(conn, database, events=events, seed=seed)
    conn.close()
    other = copy_database()
    await run_database(database)
    with connect(database) as ours, connect(other) as theirs:
        set_engine(theirs, "cars", "spark")
        run_spark(make_pipeline(other, theirs, events_max=events_max))
        by_database, by_spark = read_results(ours), read_results(theirs)
    assert list(differences(by_database, by_spark)) == []
    assert min(len(by_spark[name]) for name in ("firings", "correlations", "instances", "derived")) > 5
    assert any(row[2] is None for row in by_spark["correlations"]), "no timer fired"
