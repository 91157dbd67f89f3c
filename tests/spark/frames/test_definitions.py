"""A correlator may be the library's own object, a name, a file or a text; many of them share one read."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from headrace.core import Invalid, UnknownCorrelator
from headrace.correlators import Correlator, create_correlator
from headrace.db import Connection
from headrace.lang.ecl import PatternError
from headrace.spark import CorrelatorSpec, correlate
from tests.builders import topic

from .test_correlate import EPOCH, EVENTS, SIMPLE, TIMED, TWOS, WIDE, frame, output_rows, spec

RISES = "capture v = (object -> 'amount')::int; repeat {push(more) {(<p.v is null> or <v > p.v>) as p}}"
KEY = "object ->> 'account'"
FILE = f"""
correlators:
  - {{name: filed, topic: t, key: "{KEY}", pattern: "{TWOS}"}}
"""


def test_objects_names_files_and_texts_are_one_correlator(spark: Any, conn: Connection, tmp_path: Path) -> None:
    events = frame(spark, EVENTS)
    wanted = output_rows(correlate(events, CorrelatorSpec(name="c", pattern=TWOS, key=KEY)))
    assert len(wanted) > 5
    live = Correlator(name="live", topic="t", pattern=TWOS, key=KEY)
    topic(conn, "t")
    create_correlator(conn, live)
    (tmp_path / "correlators.yaml").write_text(FILE)
    outputs = {
        "live": correlate(events, live),
        "pattern": correlate(events, TWOS, key=KEY),
        "filed": correlate(events, str(tmp_path / "correlators.yaml")),
    }
    for name, output in outputs.items():
        output.persist()
        assert output_rows(output) == wanted
        assert {row.correlator for row in output.select("correlator").collect()} == {name}
        output.unpersist()
    assert output_rows(correlate(events, "live", conn=conn)) == wanted
    with pytest.raises(UnknownCorrelator):
        correlate(events, "nobody", conn=conn)
    with pytest.raises(PatternError):
        correlate(events, "push(x){", key=KEY)
    with pytest.raises(Invalid, match="two correlators have the same name and version: live"):
        correlate(events, [live, live])


SPECS = {
    "simple": spec(SIMPLE),
    "timed": spec(TIMED),
    "late start": CorrelatorSpec(name="c", pattern=TWOS, key=KEY, since_offset=70),
    "other key": CorrelatorSpec(name="c", pattern=TWOS, key="type"),
    "wide": CorrelatorSpec(name="c", pattern=WIDE, key="type", evidence_max=2),
    "no key": spec(TWOS, key=None),
    "registers": CorrelatorSpec(name="c", pattern=RISES, key=KEY),
    "registers by type": CorrelatorSpec(name="c", pattern=RISES, key="type"),
    "topic": CorrelatorSpec(name="c", pattern=TIMED, key=KEY, topic="t"),
    "absent topic": CorrelatorSpec(name="c", pattern=TWOS, topic="absent"),
}


@pytest.fixture
def three_partitions(spark: Any) -> Iterator[None]:
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "3")
    yield
    spark.conf.set("spark.sql.shuffle.partitions", before)


@pytest.mark.usefixtures("three_partitions")
def test_many_correlators_over_one_read_give_what_each_gives_alone(spark: Any) -> None:
    """Same key, other keys, no key, other topics, timers, several alphabets, later starts; with the keys in three tasks."""
    events, until = frame(spark, EVENTS).repartition(3, "event_id"), EPOCH + timedelta(microseconds=EVENTS[-1].time + 60_000_000)
    named = [CorrelatorSpec(**{**_fields(one), "name": name, "version": at}) for at, (name, one) in enumerate(SPECS.items())]
    outputs = correlate(events, named, until=until).persist()
    assert {(row.correlator, row.version) for row in outputs.collect()} <= {(one.name, one.version) for one in named}
    for name, one in SPECS.items():
        alone = output_rows(correlate(events, one, until=until))
        assert output_rows(outputs.where(f"correlator = '{name}'")) == alone, name
        assert alone or name == "absent topic", name
    outputs.unpersist()


def _fields(one: CorrelatorSpec) -> dict[str, Any]:
    return {name: getattr(one, name) for name in one.__slots__}


def test_many_correlators_are_one_scan_and_one_shuffle(spark: Any) -> None:
    named = [CorrelatorSpec(**{**_fields(one), "name": name}) for name, one in SPECS.items()]
    outputs = correlate(frame(spark, EVENTS), named, until=EPOCH)
    plan = outputs._jdf.queryExecution().executedPlan().toString()
    assert plan.count("Scan") == 1 and plan.count("Exchange") == 1, plan
