"""`headrace correlator`: written by hand, run, looked into; and `headrace ecl test` on the database."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headrace.correlators import CorrelatorEngine
from headrace.db import Connection, StopSignal, Subscription, Target, create_pool
from tests.builders import topic
from tests.cli.conftest import Cli
from tests.correlators.steps import happen, settle_correlators

pytestmark = pytest.mark.lane("pg18")

PAIR = "repeat {push(x) {sequential {a, b}}}"
GIVEN = ["--topic", "cars", "--key", "key", "--action", "x=ALARM"]
CORPUS = Path(__file__).parents[1] / "corpus"


@pytest.fixture
def cars(conn: Connection) -> Connection:
    topic(conn, "cars")
    return conn


@pytest.fixture
async def correlators(database: Target) -> AsyncIterator[CorrelatorEngine]:
    """Correlators that are stepped by hand."""
    own = create_pool(database, size=2)
    await own.open()
    yield CorrelatorEngine(own, Subscription("headrace_rule"), Subscription("headrace_log"), StopSignal())
    await own.close()


async def test_correlator_is_created_runs_and_is_looked_into(
    cli: Cli, cars: Connection, correlators: CorrelatorEngine, tmp_path: Path
) -> None:
    file = tmp_path / "pair.ecl"
    file.write_text(PAIR)
    assert cli("correlator", "create", "pair", *GIVEN, "--pattern", f"@{file}", "--json").json == {"correlator": "pair"}
    assert cli("correlator", "create", "pair", *GIVEN, "--pattern", PAIR).code == 4
    assert cli("correlator", "state", "pair", "--key", "k1").code == 3, "no version runs yet"
    await settle_correlators(correlators, cars)
    happen(cars, "a:k1 a:k2 b:k1 c:k2")
    await settle_correlators(correlators, cars)
    [waiting] = cli("correlator", "state", "pair", "--key", "k2", "--json").json
    assert (waiting["waits_for"], waiting["shortest"], waiting["evidence"]) == (["b"], "b → x", [2])
    assert "b → x" in cli("correlator", "state", "pair", "--key", "k2").out
    [pushed] = cli("correlator", "outputs", "pair", "--json").json
    assert (pushed["key"], pushed["token"], pushed["position"], pushed["evidence"], pushed["name"]) == (
        "k1",
        "x",
        3,
        [1, 3],
        "ALARM",
    )
    assert "ALARM" in cli("correlator", "outputs", "pair").out
    assert cli("correlator", "outputs", "pair", "--key", "k2", "--json").json == []
    [with_payloads] = cli("correlator", "outputs", "pair", "--payloads", "--json").json
    assert [event["position"] for event in with_payloads["events"]] == with_payloads["evidence"]
    assert all("payload" in event for event in with_payloads["events"]) and pushed["events"] is None


async def test_change_says_how_many_keys_go_on(cli: Cli, cars: Connection, correlators: CorrelatorEngine) -> None:
    cli("correlator", "create", "pair", *GIVEN, "--pattern", PAIR)
    await settle_correlators(correlators, cars)
    happen(cars, "a:k1 a:k2 c:k3")
    await settle_correlators(correlators, cars)
    same = "repeat {push(x) {sequential {a, sequential {b}}}}"
    assert cli("correlator", "alter", "pair", "--pattern", same, "--json").json["carried"] == 2
    assert cli("correlator", "alter", "pair", "--pattern", "push(x) {c}", "--json").json["restarted"] == 2
    [shown] = cli("correlator", "show", "pair", "--json").json
    assert (shown["pattern"], shown["version"]) == ("push(x) {c}", 3)
    assert "ALARM" in cli("correlator", "list").out
    assert cli("correlator", "drop", "pair", "--yes").code == 0
    assert cli("correlator", "list", "--json").json == []


def test_mistakes_are_told(cli: Cli, cars: Connection) -> None:
    bad = cli("correlator", "create", "pair", *GIVEN, "--pattern", "push(x) {sequential {a b}}", "--json")
    assert bad.code == 5 and "line 1" in bad.error["message"]
    assert cli("correlator", "create", "pair", "--topic", "cars", "--pattern", PAIR, "--action", "x").code == 2
    assert cli("correlator", "create", "pair", "--topic", "cars", "--pattern", PAIR, "--event", "x=cars").code == 2
    loop = ["--topic", "cars", "--pattern", "repeat {push(x) {a}}", "--event", "x=cars/a"]
    assert cli("correlator", "create", "echo", *loop, "--json").error["error"] == "FeedbackLoop"
    assert cli("correlator", "create", "echo", *loop, "--allow-feedback").code == 0
    for words in (["show", "x"], ["alter", "x", "--restart"], ["drop", "x", "--yes"], ["state", "x"], ["outputs", "x"]):
        assert (cli("correlator", *words, "--json").code, cli("correlator", *words, "--json").error["error"]) == (
            3, "UnknownCorrelator",
        )  # fmt: skip
    assert cli("correlator", "alter", "x").code == 2


def test_ecl_corpus_runs_on_the_database(cli: Cli, conn: Connection, tmp_path: Path) -> None:
    answer = cli("ecl", "test", str(CORPUS / "ecl.toml"), "--engine", "database", "--json")
    assert answer.code == 0 and answer.json["as_expected"] == answer.json["cases"] > 50
    wrong = tmp_path / "wrong.toml"
    wrong.write_text('[[case]]\nname = "odd"\npattern = "push(x) {a}"\nevents = "a"\noutputs = "."\nstatus = "success"\n')
    answer = cli("ecl", "test", str(wrong), "--engine", "database")
    assert answer.code == 6 and "odd" in answer.out + answer.err
