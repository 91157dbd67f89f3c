"""The monitoring guide runs, its table is complete, and the files for systemd and Kubernetes are valid."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from typer.main import get_command

from headrace.cli import node
from headrace.cli.options import ENVIRONMENT
from headrace.db import Connection, Target
from headrace.observe.metrics.families import FAMILIES
from tests.docs.guide import DOCS, run_guide


@pytest.mark.lane("pg18")
async def test_monitoring_guide_runs(database: Target, conn: Connection) -> None:
    assert (await run_guide("monitoring", database, conn))["blocks_run"] == 3


def test_guide_lists_every_metric_with_its_labels() -> None:
    rows = re.findall(
        r"^\| `(headrace_\w+)`.*?\| (.*?) ?\| (database|node) \|$", (DOCS / "monitoring.md").read_text(), re.MULTILINE
    )
    assert {(name, labels, source) for name, labels, source in rows} == {
        (family.name, ", ".join(family.labels), family.source) for family in FAMILIES
    }


def fenced(language: str) -> str:
    [text] = re.findall(rf"^```{language}\n(.*?)^```$", (DOCS / "operations.md").read_text(), re.MULTILINE | re.DOTALL)
    return str(text)


def test_kubernetes_manifest_uses_the_health_checks() -> None:
    [container] = yaml.safe_load(fenced("yaml"))["spec"]["template"]["spec"]["containers"]
    paths = {probe: container[f"{probe}Probe"]["httpGet"]["path"] for probe in ("liveness", "readiness", "startup")}
    assert paths == {"liveness": "/healthz", "readiness": "/readyz", "startup": "/healthz"}
    assert {container[f"{probe}Probe"]["httpGet"]["port"] for probe in paths} == {container["ports"][0]["name"]}


def node_options(words: list[str]) -> dict[str, object]:
    """The options of `headrace node run` that a command line sets; raises for one that does not exist."""
    program, group, command, *rest = words
    assert (Path(program).name, group, command) == ("headrace", "node", "run")
    run = get_command(node.group).commands["run"]  # type: ignore[attr-defined]
    return dict(run.make_context("run", rest).params)


def test_kubernetes_manifest_names_existing_options_and_settings() -> None:
    spec = yaml.safe_load(fenced("yaml"))["spec"]["template"]["spec"]
    [container] = spec["containers"]
    options = node_options(container["args"])
    assert options["http"] == f"0.0.0.0:{container['ports'][0]['containerPort']}" and options["ready_lag_s"] == 300
    assert spec["terminationGracePeriodSeconds"] > float(str(options["grace_s"])), "handlers finish before the kill"
    assert {variable["name"] for variable in container["env"]} <= {setting.name for setting in ENVIRONMENT}


def test_systemd_unit_names_existing_options_and_asks_for_its_health() -> None:
    entries = dict(re.findall(r"^(\w+)=(.*)$", fenced("ini"), re.MULTILINE))
    options = node_options(shlex.split(entries["ExecStart"]))
    assert f"http://{options['http']}/healthz" in entries["ExecStartPost"]
    assert float(entries["TimeoutStopSec"]) > float(str(options["grace_s"]))


def test_systemd_unit_is_valid(tmp_path: Path) -> None:
    unit = fenced("ini")
    assert re.search(r"^ExecStart=.* node run .* --http ", unit, re.MULTILINE)
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        # Without systemd only the form can be checked.
        lines = [line for line in unit.splitlines() if line and not line.startswith("#")]
        assert all(re.fullmatch(r"\[\w+\]|\w+=.+", line) for line in lines)
        return
    program = tmp_path / "headrace"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    file = tmp_path / "headrace-node.service"
    unit = unit.replace("/srv/shop/.venv/bin/headrace", str(program)).replace("/usr/bin/curl", str(program))
    file.write_text(unit.replace("User=headrace\n", ""))
    checked = subprocess.run([analyze, "verify", str(file)], capture_output=True, text=True, timeout=30, check=False)
    assert "headrace-node.service" not in checked.stderr, checked.stderr
