"""A real Prometheus scrapes a real node; promtool checks the alerts, and each of them fires."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from headrace.db import Connection, Target
from headrace.db.server import free_port
from headrace.observe.metrics import alert_rules, dashboard_json
from headrace.observe.metrics.families import FAMILIES
from tests.builders import publish, start_python, topic, wait_until
from tests.conftest import temporary_folder
from tests.debian import find_program

pytestmark = pytest.mark.lane("pg18")


def prometheus_path(program: str = "prometheus") -> str:
    return find_program(program, "prometheus")


@dataclass(frozen=True)
class Prometheus:
    """A running Prometheus; the nodes it scrapes are in a file."""

    port: int
    targets: Path

    def scrape(self, *addresses: str) -> None:
        self.targets.write_text(json.dumps([{"targets": addresses}]))

    def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        address = f"http://127.0.0.1:{self.port}/api/v1/query?query={urllib.parse.quote(expression)}"
        with urllib.request.urlopen(address, timeout=10) as answer:
            result = json.load(answer)["data"]["result"]
        return [(series["metric"], float(series["value"][1])) for series in result]


@pytest.fixture(scope="module")
def prometheus() -> Iterator[Prometheus]:
    """Prometheus with our alert rules, scraping five times a second."""
    folder, port = temporary_folder(), free_port()
    (folder / "alerts.yml").write_text(alert_rules())
    discovery = [{"files": [str(folder / "targets.json")], "refresh_interval": "1s"}]
    config = {
        "global": {"scrape_interval": "200ms", "evaluation_interval": "200ms"},
        "rule_files": ["alerts.yml"],
        "scrape_configs": [{"job_name": "headrace", "file_sd_configs": discovery}],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    process = subprocess.Popen(
        [
            prometheus_path(),
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def is_ready() -> bool:
        assert process.poll() is None, "Prometheus has ended"
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/-/ready", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    try:
        wait_until(is_ready, "the start of Prometheus", timeout_s=30)
        yield Prometheus(port, folder / "targets.json")
    finally:
        process.terminate()
        process.wait(10)
        shutil.rmtree(folder)


def test_prometheus_scrapes_a_node_and_gets_the_numbers(prometheus: Prometheus, conn: Connection, database: Target) -> None:
    topic(conn)
    conn.execute("select headrace.create_consumer('orders', 'mailer')")
    port = free_port()
    node = start_python("headrace", "node", "run", "--dsn", database.dsn, "--http", f"127.0.0.1:{port}")
    try:
        prometheus.scrape(f"127.0.0.1:{port}")
        wait_until(lambda: prometheus.query("headrace_database_up") != [], "the first scrape")
        for n in range(7):
            publish(conn, n)
        lag = 'headrace_consumer_lag_events{consumer="mailer"}'
        wait_until(lambda: [value for _, value in prometheus.query(lag)] == [7], "the lag")
        [(labels, _)] = prometheus.query(lag)
        assert labels["topic"] == "orders" and labels["namespace"] == "default" and labels["shard"] == "main"
        [(_, age_s)] = prometheus.query('headrace_consumer_lag_seconds{consumer="mailer"}')
        assert 0 < age_s < 120
        assert [value for _, value in prometheus.query("headrace_sequenced_events_total")] == [7]
        assert [value for _, value in prometheus.query("headrace_node_up")] == [1]
        assert [value for _, value in prometheus.query("up")] == [1], "every line is valid"
        address = f"http://127.0.0.1:{prometheus.port}/api/v1/metadata"
        with urllib.request.urlopen(address, timeout=10) as answer:
            kinds = {name: facts[0]["type"] for name, facts in json.load(answer)["data"].items()}
        ours = {family.name: family.kind for family in FAMILIES}
        assert {name: kind for name, kind in kinds.items() if name.startswith("headrace_")} == ours
    finally:
        node.terminate()
        node.wait(20)


NODE = 'shard="main", instance="a:1"'
SITUATIONS = {
    "HeadraceConsumerLagging": [(f'headrace_consumer_lag_seconds{{{NODE}, topic="t", consumer="c"}}', "400x40")],
    "HeadraceEventsNotSequenced": [
        (f'headrace_outbox_waiting{{{NODE}, topic="t"}}', "5x40"),
        (f'headrace_sequenced_events_total{{{NODE}, topic="t"}}', "100x40"),
    ],
    "HeadraceActionsWaiting": [(f'headrace_action_queue{{{NODE}, state="due"}}', "1500x40")],
    "HeadraceActionsLate": [(f"headrace_action_wait_seconds{{{NODE}}}", "400x40")],
    "HeadraceDeadLetters": [(f'headrace_dead_letters{{{NODE}, kind="action", reason="failed"}}', "1x40")],
    "HeadraceNodeLost": [(f'headrace_node_up{{{NODE}, node="web-1"}}', "0x40")],
    "HeadraceDatabaseNotReadable": [(f"headrace_database_up{{{NODE}}}", "0x40")],
    "HeadraceLoopFailing": [(f'headrace_loop_failures_total{{{NODE}, loop="sequencer"}}', "0+3x40")],
    "HeadraceHandlerSlow": [
        (f'headrace_handler_duration_seconds_bucket{{{NODE}, kind="action", handler="mail", le="10"}}', "0+1x40"),
        (f'headrace_handler_duration_seconds_bucket{{{NODE}, kind="action", handler="mail", le="60"}}', "0+9x40"),
        (f'headrace_handler_duration_seconds_bucket{{{NODE}, kind="action", handler="mail", le="+Inf"}}', "0+9x40"),
    ],
}
"""Series, one value a minute, on which an alert fires."""
HEALTHY = [
    (f'headrace_consumer_lag_seconds{{{NODE}, topic="t", consumer="c"}}', "10x40"),
    (f'headrace_outbox_waiting{{{NODE}, topic="t"}}', "5x40"),
    (f'headrace_sequenced_events_total{{{NODE}, topic="t"}}', "0+100x40"),
    (f'headrace_action_queue{{{NODE}, state="due"}}', "10x40"),
    (f"headrace_action_wait_seconds{{{NODE}}}", "20x40"),
    (f'headrace_node_up{{{NODE}, node="web-1"}}', "1x40"),
    (f"headrace_database_up{{{NODE}}}", "1x40"),
    (f'headrace_loop_failures_total{{{NODE}, loop="sequencer"}}', "1x40"),
    (f'headrace_handler_duration_seconds_bucket{{{NODE}, kind="action", handler="mail", le="0.1"}}', "0+9x40"),
    (f'headrace_handler_duration_seconds_bucket{{{NODE}, kind="action", handler="mail", le="+Inf"}}', "0+9x40"),
]


@pytest.fixture(scope="module")
def run_promtool(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., subprocess.CompletedProcess[str]]:
    folder = tmp_path_factory.mktemp("promtool")
    (folder / "alerts.yml").write_text(alert_rules())

    def run(*words: str, files: dict[str, object] | None = None) -> subprocess.CompletedProcess[str]:
        for name, content in (files or {}).items():
            (folder / name).write_text(yaml.safe_dump(content))
        command = [prometheus_path("promtool"), *words]
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)

    return run


def fires(series: list[tuple[str, str]], alerts: dict[str, bool]) -> dict[str, object]:
    """A test of promtool: which alerts fire after 30 minutes of these series. Labels and texts do not matter here."""
    expressions = [
        {
            "expr": f'count(ALERTS{{alertname="{alert}", alertstate="firing"}}) or vector(0)',
            "eval_time": "30m",
            "exp_samples": [{"labels": "{}", "value": int(does_fire)}],
        }
        for alert, does_fire in alerts.items()
    ]
    inputs = [{"series": name, "values": values} for name, values in series]
    group = {"interval": "1m", "input_series": inputs, "promql_expr_test": expressions}
    return {"rule_files": ["alerts.yml"], "evaluation_interval": "1m", "tests": [group]}


def alert_names() -> list[str]:
    return [rule["alert"] for group in yaml.safe_load(alert_rules())["groups"] for rule in group["rules"]]


def test_promtool_accepts_the_alerts(run_promtool: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    checked = run_promtool("check", "rules", "alerts.yml")
    assert checked.returncode == 0 and f"{len(SITUATIONS)} rules found" in checked.stdout, checked.stderr


def test_each_alert_fires_in_its_situation_and_none_in_health(
    run_promtool: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    assert set(alert_names()) == set(SITUATIONS)
    files = {f"{alert}.yml": fires(series, {alert: True}) for alert, series in SITUATIONS.items()}
    files["healthy.yml"] = fires(HEALTHY, dict.fromkeys(SITUATIONS, False))
    tested = run_promtool("test", "rules", *files, files=files)
    assert tested.returncode == 0, tested.stdout + tested.stderr
    # The check can fail: in health the alerts do not fire.
    wrong = {"wrong.yml": fires(HEALTHY, {"HeadraceNodeLost": True})}
    assert run_promtool("test", "rules", "wrong.yml", files=wrong).returncode == 1


def test_prometheus_has_loaded_the_alerts_and_they_can_be_pending(
    prometheus: Prometheus, conn: Connection, database: Target
) -> None:
    address = f"http://127.0.0.1:{prometheus.port}/api/v1/rules"
    with urllib.request.urlopen(address, timeout=10) as answer:
        [group] = json.load(answer)["data"]["groups"]
    assert [rule["name"] for rule in group["rules"]] == alert_names()
    conn.execute("select headrace.send_action('mail')")
    conn.execute("select headrace.bury_actions(array(select msg_id from headrace.claim_actions('{mail}', 1, 30)), 'failed', 'x')")
    port = free_port()
    node = start_python("headrace", "node", "run", "--dsn", database.dsn, "--http", f"127.0.0.1:{port}")
    try:
        prometheus.scrape(f"127.0.0.1:{port}")
        pending = 'ALERTS{alertname="HeadraceDeadLetters", alertstate="pending"}'
        wait_until(lambda: len(prometheus.query(pending)) == 1, "the alert")
        [(labels, _)] = prometheus.query(pending)
        assert (labels["namespace"], labels["kind"], labels["reason"]) == ("default", "action", "failed")
    finally:
        node.terminate()
        node.wait(20)


def test_dashboard_and_alerts_use_only_names_that_exist_and_the_dashboard_all_of_them() -> None:
    known = {family.name for family in FAMILIES} | {f"{family.name}_bucket" for family in FAMILIES if family.kind == "histogram"}
    panels = json.loads(dashboard_json())["panels"]
    shown = {name for panel in panels for name in re.findall(r"headrace_\w+", panel["targets"][0]["expr"])}
    assert shown <= known
    assert {name.removesuffix("_bucket") for name in shown} == {family.name for family in FAMILIES}
    rules = [rule for group in yaml.safe_load(alert_rules())["groups"] for rule in group["rules"]]
    assert {name for rule in rules for name in re.findall(r"headrace_\w+", rule["expr"])} <= known
    labels = {label for family in FAMILIES for label in family.labels} | {"shard", "instance"}
    assert {name for rule in rules for name in re.findall(r"\$labels\.(\w+)", str(rule["annotations"]))} <= labels


def test_queries_of_the_dashboard_are_valid(prometheus: Prometheus) -> None:
    for panel in json.loads(dashboard_json())["panels"]:
        expression = panel["targets"][0]["expr"].replace("$__rate_interval", "1m").replace("$shard", ".*")
        prometheus.query(expression)  # An invalid one raises.
