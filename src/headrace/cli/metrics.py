"""`headrace metrics`: the numbers of a database, and what Grafana and Prometheus need to show and watch them."""

from __future__ import annotations

import sys
from typing import Annotated

import yaml
from typer import Option, Typer

from headrace.cli.output import Column
from headrace.cli.session import Session, command
from headrace.observe.metrics import Sample, alert_rules, dashboard_json, read_metrics, render

group = Typer(help="Metrics: the numbers for Prometheus, with a dashboard and alerts.")


@command(group, "show", common=("dsn", "json"))
def show(session: Session, text: Annotated[bool, Option("--text", help="In the text format of Prometheus.")] = False) -> None:
    """Show the metrics of every database now. Those of a node's process only the node has: see `headrace node run --http`.

    Example: headrace metrics show --text
    """
    samples = session.collect(read_metrics)
    if text:
        shards = {target.name: [sample for own, sample in samples if own is target] for target in session.targets}
        sys.stdout.write(render(shards).decode())
        return
    labels: Column = ("labels", lambda sample: ", ".join(map("=".join, zip(sample.family.labels, sample.labels, strict=True))))
    session.show([("metric", lambda sample: sample.family.name), labels, "value"], samples, facts=_facts)


def _facts(sample: Sample) -> dict[str, object]:
    return {
        "metric": sample.family.name,
        "labels": dict(zip(sample.family.labels, sample.labels, strict=True)),
        "value": sample.value,
    }


@command(group, "dashboard", common=("json",))
def dashboard(session: Session) -> None:
    """Print the dashboard for Grafana, which is JSON.

    Example: headrace metrics dashboard > headrace.json
    """
    sys.stdout.write(dashboard_json())


@command(group, "alerts", common=("json",))
def alerts(session: Session) -> None:
    """Print the alert rules for Prometheus, in YAML.

    Example: headrace metrics alerts > /etc/prometheus/headrace-alerts.yml
    """
    if session.json:
        session.print(yaml.safe_load(alert_rules()))
    else:
        sys.stdout.write(alert_rules())
