"""A backtest gives what the engine would have given, over archive and log, and changes nothing in the database."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from pyspark.sql import SparkSession

from headrace.core import Invalid, UnknownCorrelator, UnknownRule
from headrace.correlators import Correlator, CorrelatorEngine, create_correlator
from headrace.db import Connection, Server, Target, connect
from headrace.log.archive import archive_topic
from headrace.log.topics import create_topic
from headrace.rules import RuleEngine
from headrace.spark.backtest import Report, backtest, correlator_subject, read_only, rule_subjects
from headrace.spark.backtest.ranges import Source, TopicRange
from headrace.spark.backtest.run import secret_file
from headrace.spark.source import SourceOptions
from tests.builders import drain, shift_clock
from tests.cli.conftest import call
from tests.correlators.steps import happen, pushed, settle_correlators
from tests.log.archive.builders import later
from tests.rules.steps import settle, write

pytestmark = pytest.mark.lane("pg18")

DAY = datetime(2026, 1, 1, tzinfo=UTC)
COUNT = 60
STATE = """
    select (select count(*) from headrace.firing), (select count(*) from headrace.correlation),
        (select count(*) from public.sent),
        (select count(*) from headrace.outbox), (select count(*) from headrace.log), (select count(*) from headrace.rule_version),
        (select array_agg(c.position order by c.consumer_id) from headrace.cursor c),
        (select count(*) from headrace.correlator_instance)"""
RULES = """
rules:
  - {name: fast, topic: cars, event_type: NEW_CAR, condition: "(object -> 'hp')::int > 20", action: act}
  - {name: red, topic: cars, event_type: NEW_CAR, condition: "object ->> 'color' = 'red'", action: act}
"""


def hp(n: int) -> int:
    return n * 7 % 60


async def cars(conn: Connection, reactor: RuleEngine, database: Target, folder: Path) -> None:
    """60 cars over six days, five keys; a live rule `fast` (hp > 30) from position 11 on; the first half archived and dropped."""
    create_topic(conn, "cars", time_partition="day")
    for first in range(1, COUNT + 1, 10):
        if first == 11:
            write(conn, "fast", "(object -> 'hp')::int > 30")
        if first == 31:
            shift_clock(conn, "4 days")
        for n in range(first, first + 10):
            payload = json.dumps({"hp": hp(n), "color": "red" if n % 4 == 0 else "<b>blue</b>"})
            conn.execute(
                "select headrace.publish('cars', 'NEW_CAR', %s::jsonb, p_key => %s, p_emitted_at => %s)",
                (payload, f"k{n % 5}", DAY + timedelta(days=(n - 1) // 10)),
            )
        await settle(reactor, conn)
    list(archive_topic(later(database, days=4), "cars", folder=folder))
    conn.execute("select headrace.drop_expired(headrace.topic_id('cars'), headrace.clock() - interval '1 day')")


def totals(report: Report) -> dict[str, tuple[int, int, int]]:
    return {result.name: (result.would, result.live, result.both) for result in report.results}


async def test_rules_from_a_file_are_compared_with_the_live_ones(
    spark: SparkSession, database: Target, conn: Connection, reactor: RuleEngine, tmp_path: Path
) -> None:
    await cars(conn, reactor, database, tmp_path)
    (tmp_path / "rules.yaml").write_text(RULES)
    before = conn.execute(STATE).fetchone()
    subjects = rule_subjects(conn, str(tmp_path / "rules.yaml"))
    assert [subject.live for subject in subjects] == [True, False]
    report = backtest(spark, [database], subjects, samples=2, keys=3)

    would = {n for n in range(1, COUNT + 1) if hp(n) > 20}
    live = {n for n in range(11, COUNT + 1) if hp(n) > 30}
    assert (report.events, report.archived) == (COUNT, 30)
    assert totals(report) == {"fast": (len(would), len(live), len(live)), "red": (COUNT // 4, 0, 0)}
    fast = report.results[0]
    by_day = {(day.day - DAY.date()).days: (day.would, day.live, day.both) for day in fast.days}
    days, lives = Counter((n - 1) // 10 for n in would), Counter((n - 1) // 10 for n in live)
    assert by_day == {day: (days[day], lives[day], lives[day]) for day in days}
    keys = Counter(f"k{n % 5}" for n in would)
    assert [(key.key, key.would) for key in fast.keys] == sorted(keys.items(), key=lambda item: (-item[1], item[0]))[:3]
    assert {(sample.status, sample.position) for sample in fast.samples} == {
        *(("both", n) for n in sorted(live)[-2:]),
        *(("would", n) for n in sorted(would - live)[-2:]),
    }
    for sample in fast.samples:
        (event,) = sample.evidence
        assert (event.position, json.loads(event.payload)["hp"]) == (sample.position, hp(sample.position))
    assert conn.execute(STATE).fetchone() == before


async def test_command_prints_the_same_as_json_table_and_page(
    spark: SparkSession, database: Target, conn: Connection, reactor: RuleEngine, tmp_path: Path
) -> None:
    await cars(conn, reactor, database, tmp_path)
    page = tmp_path / "report.html"
    arguments = ("backtest", "--rule", "fast", "--from", "11", "--dsn", database.dsn)
    answer = call(*arguments, "--html", str(page))
    live = len([n for n in range(11, COUNT + 1) if hp(n) > 30])
    assert answer.code == 0, answer.err
    assert "█" in answer.out and "nothing was fired" in answer.out
    text = page.read_text()
    assert "<b>blue" not in text and "&lt;b&gt;blue" in text and "<svg" in text and "<script" not in text and "http" not in text
    output = call(*arguments, "--to", "31", "--json").json
    (result,) = output["results"]
    early = len([n for n in range(11, 31) if hp(n) > 30])
    assert (result["would"], result["live"], result["both"]) == (early, early, early)
    assert f"{live}" in answer.out
    assert call("backtest", "--dsn", database.dsn).code == 2
    assert call("backtest", "--rule", "nobody", "--dsn", database.dsn).code == UnknownRule.exit_code


async def test_unchanged_correlator_agrees_with_the_live_one_and_a_changed_one_differs(
    spark: SparkSession, database: Target, conn: Connection, correlators: CorrelatorEngine, tmp_path: Path
) -> None:
    create_topic(conn, "cars")
    late = "repeat {push(late) {sequential {departed, fail {within 10 s {arrived}}}}}"
    create_correlator(conn, Correlator(name="late", topic="cars", key="key", pattern=late))
    await settle_correlators(correlators, conn)
    happen(conn, "departed:k1 departed:k2 other arrived:k2")
    for by in ("20 s", "25 s", "40 s"):
        shift_clock(conn, by)
        happen(conn, "departed:k1 departed:k3 arrived:k3")
    await settle_correlators(correlators, conn)
    before = conn.execute(STATE).fetchone()
    live = pushed(conn)
    assert {row[4] for row in live} == {None}

    subject = correlator_subject(conn, "late")
    (result,) = backtest(spark, [database], [subject]).results
    assert (result.would, result.live, result.both) == (len(live), len(live), len(live))
    (counted,) = backtest(spark, [database], [subject], samples=0, keys=0).results
    assert (counted.days, counted.tokens) == (result.days, result.tokens) and not counted.samples
    assert [(token.token, token.both) for token in result.tokens] == [("late", len(live))]
    assert {tuple(event.position for event in sample.evidence) for sample in result.samples} == {tuple(row[5]) for row in live}

    (tmp_path / "late.ecl").write_text("repeat {push(late) {sequential {departed, fail {within 3 s {arrived}}}}}")
    changed = correlator_subject(conn, str(tmp_path / "late.ecl"))
    (other,) = backtest(spark, [database], [changed]).results
    assert other.would >= result.would and other.both == 0
    assert conn.execute(STATE).fetchone() == before


def test_pattern_in_a_file_needs_a_topic_or_a_live_correlator(conn: Connection, tmp_path: Path) -> None:
    (tmp_path / "new.ecl").write_text("push(x) {a}")
    with pytest.raises(Invalid, match="give --topic"):
        correlator_subject(conn, str(tmp_path / "new.ecl"))
    subject = correlator_subject(conn, str(tmp_path / "new.ecl"), topic="cars", key="key")
    assert (subject.live, subject.topic, subject.name) == (False, "cars", "new")
    with pytest.raises(UnknownCorrelator):
        correlator_subject(conn, "nobody")


async def test_files_of_rules_and_correlators_are_one_read(
    spark: SparkSession,
    database: Target,
    conn: Connection,
    reactor: RuleEngine,
    correlators: CorrelatorEngine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two rules and three correlators with two keys; a rule and a correlator have the same name."""
    late = "repeat {push(late) {sequential {NEW_CAR, fail {within 10 s {NEW_CAR}}}}}"
    create_topic(conn, "cars", time_partition="day")
    create_correlator(conn, Correlator(name="late", topic="cars", key="key", pattern=late))
    write(conn, "fast", "(object -> 'hp')::int > 30")
    await settle(reactor, conn)
    for n in range(1, 31):
        shift_clock(conn, f"{n * 4} s")
        conn.execute(
            "select headrace.publish('cars', 'NEW_CAR', %s::jsonb, p_key => %s)", (json.dumps({"hp": hp(n)}), f"k{n % 5}")
        )
        drain(conn)
    await settle(reactor, conn)
    await settle_correlators(correlators, conn)
    (tmp_path / "rules.yaml").write_text(RULES)
    (tmp_path / "correlators.yaml").write_text(
        f"""correlators:
  - {{name: late, topic: cars, key: key, pattern: "{late}"}}
  - {{name: fast, topic: cars, key: "object ->> 'hp'", pattern: "repeat {{push(x) {{NEW_CAR}}}}"}}
  - {{name: pairs, topic: cars, pattern: "repeat {{push(x) {{sequential {{NEW_CAR, NEW_CAR}}}}}}"}}
"""
    )
    reads: list[tuple[str, ...]] = []
    read_options = Source.read_options

    def note_columns(source: Source, part: TopicRange, columns: tuple[str, ...], types: tuple[str, ...]) -> SourceOptions:
        reads.append(columns)
        return read_options(source, part, columns, types)

    monkeypatch.setattr(Source, "read_options", note_columns)
    files = [str(tmp_path / name) for name in ("rules.yaml", "correlators.yaml")]
    results = call("backtest", *files, "--dsn", database.dsn, "--json").json["results"]
    assert reads == [("key", "type", "payload", "offset", "timestamp", "appended_at")]
    live = len(pushed(conn))
    fast, fires = (sum(hp(n) > most for n in range(1, 31)) for most in (20, 30))
    assert live > 20 and 0 < fires < fast
    counts = {(row["kind"], row["name"]): (row["would"], row["live"], row["both"]) for row in results}
    # The last timers are due by the log's time, which is ahead of the engine's clock.
    would, *others = counts.pop(("correlator", "late"))
    assert others == [live, live] and would >= live
    assert counts == {
        ("rule", "fast"): (fast, fires, fires),
        ("rule", "red"): (0, 0, 0),
        ("correlator", "fast"): (30, 0, 0),
        ("correlator", "pairs"): (15, 0, 0),
    }
    assert call("backtest", files[0], files[0], "--dsn", database.dsn).code == Invalid.exit_code


def test_pattern_on_another_topic_is_not_compared_with_the_live_correlator_of_its_name(conn: Connection, tmp_path: Path) -> None:
    for name in ("cars", "planes"):
        create_topic(conn, name)
    create_correlator(conn, Correlator(name="late", topic="cars", key="key", pattern="push(x) {a}"))
    (tmp_path / "late.ecl").write_text("push(x) {b}")
    elsewhere = correlator_subject(conn, str(tmp_path / "late.ecl"), topic="planes")
    assert (elsewhere.live, elsewhere.spec.key) == (False, None)
    assert elsewhere.notes == ("late: the live correlator of this name runs on cars, not on planes; it is not compared",)
    assert correlator_subject(conn, str(tmp_path / "late.ecl"), topic="cars").live


@pytest.mark.parametrize("form", ["url", "keywords"])
def test_sessions_of_a_backtest_cannot_write(database: Target, form: str) -> None:
    target = database if form == "url" else Target("test", psycopg.conninfo.make_conninfo(database.dsn))
    with connect(read_only(target)) as conn:
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            conn.execute("select headrace.create_topic('never')")
        assert conn.execute("select count(*) from headrace.topic").fetchone() == (0,)


async def test_backtest_and_its_spark_open_only_read_only_sessions(
    spark: SparkSession, database: Target, conn: Connection, reactor: RuleEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_topic(conn, "cars")
    write(conn, "fast", "true")
    conn.execute("select headrace.publish('cars', 'NEW_CAR', '1')")
    await settle(reactor, conn)
    opened: list[Target] = []

    def recorded_connect(target: Target) -> object:
        opened.append(target)
        return connect(target)

    @contextmanager
    def recorded_secret_file(targets: list[Target]) -> Iterator[str]:
        opened.extend(targets)
        with secret_file(targets) as secret:
            yield secret

    monkeypatch.setattr("headrace.spark.backtest.run.connect", recorded_connect)
    monkeypatch.setattr("headrace.spark.backtest.run.secret_file", recorded_secret_file)
    assert totals(backtest(spark, [database], rule_subjects(conn, "fast"))) == {"fast": (1, 1, 1)}
    assert len(opened) == 2
    for target in opened:
        with connect(target) as writer, pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            writer.execute("select headrace.publish('cars', 'NEW_CAR', '1')")


async def test_counts_of_several_shards_add_up(
    spark: SparkSession, server: Server, database: Target, conn: Connection, reactor: RuleEngine
) -> None:
    other = f"other_{uuid4().hex}"
    with psycopg.connect(server.dsn(), autocommit=True) as admin:
        admin.execute(f"create database {other} template headrace_template strategy file_copy")
    shards = [Target("a", database.dsn), Target("b", server.dsn(other))]
    with connect(shards[1]) as second:
        for shard, count in ((conn, 3), (second, 5)):
            create_topic(shard, "cars")
            if shard is conn:
                write(shard, "fast", "true")
                await settle(reactor, conn)
            for _ in range(count):
                shard.execute("select headrace.publish('cars', 'NEW_CAR', '1', p_key => 'k')")
            drain(shard)
        await settle(reactor, conn)
        report = backtest(spark, shards, rule_subjects(conn, "fast"), samples=10)
    with psycopg.connect(server.dsn(), autocommit=True) as admin:
        admin.execute(f"drop database {other} with (force)")
    assert report.events == 8
    assert totals(report) == {"fast": (8, 3, 3)}
    assert Counter(sample.shard for sample in report.results[0].samples) == {"a": 3, "b": 5}
