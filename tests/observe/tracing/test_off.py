"""Off, tracing costs one look at a setting: nothing is imported, no span, no header."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from headrace.actions import Action
from headrace.core import Event, Invalid, LoggedEvent
from headrace.db import AsyncConnection, Connection, Target
from headrace.log.outbox import publish, publish_many
from headrace.node import Headrace
from headrace.observe.tracing import set_tracing, switch
from headrace.testing import Kit
from tests.builders import ROOT

PUBLISH = """
import sys, psycopg
from headrace import Event, publish, publish_many
from headrace.node import Headrace
with psycopg.connect(sys.argv[1]) as conn:
    publish(conn, "orders", "placed", headers={"a": 1})
    publish_many(conn, [Event(topic="orders", type="placed")])
print([name for name in sys.modules if name.startswith("opentelemetry")])
"""
WITHOUT_PACKAGE = """
import sys
sys.modules["opentelemetry"] = None
from headrace.observe.tracing import set_tracing, switch
print(switch.tracer)
try:
    set_tracing("on")
except Exception as error:
    print(type(error).__name__, error)
"""


def run_python(program: str, *words: str, **variables: str) -> tuple[str, str]:
    """What a new process prints, and what it logs."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", **variables}
    command = [sys.executable, "-c", program, *words]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
    return ended.stdout, ended.stderr


class CountingSwitch:
    """A switch that is off and counts who looks at it."""

    def __init__(self) -> None:
        self.looks = 0

    @property
    def tracer(self) -> None:
        self.looks += 1


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> Iterator[CountingSwitch]:
    counting = CountingSwitch()
    for module in ("headrace.log.outbox.publishing", "headrace.consume.handler_calls"):
        monkeypatch.setattr(f"{module}.switch", counting)
    return counting


@pytest.mark.lane("pg18")
def test_publishing_looks_once_at_the_setting_and_imports_nothing(kit: Kit, database: Target, counting: CountingSwitch) -> None:
    publish(kit.conn, "orders", "placed")
    assert counting.looks == 1
    publish_many(kit.conn, [Event(topic="orders", type="placed") for _ in range(1000)])
    assert counting.looks == 2, "once per batch, not per event"
    assert run_python(PUBLISH, database.dsn)[0] == "[]\n"
    assert kit.conn.execute("select distinct headers from headrace.outbox order by 1").fetchall() == [({},), ({"a": 1},)]


@pytest.mark.lane("pg18")
async def test_handling_looks_once_at_the_setting_per_call(kit: Kit, counting: CountingSwitch) -> None:
    app = Headrace()

    @app.consumer("orders")
    async def mailer(event: LoggedEvent, tx: AsyncConnection) -> None: ...

    @app.on("placed")
    def sync_handler(action: Action, tx: Connection) -> None: ...

    await kit.register(app)
    for n in range(5):
        publish(kit.conn, "orders", "placed", n)
    looks = counting.looks
    await kit.run_until_idle(app)
    assert counting.looks - looks == 10


def test_wrong_value_warns_and_leaves_tracing_off() -> None:
    out, err = run_python("from headrace.observe.tracing import switch; print(switch.tracer)", HEADRACE_TRACING="yes")
    assert out == "None\n"
    assert "HEADRACE_TRACING=yes has no effect: tracing cannot be 'yes'; give one of off, on, parent" in err
    with pytest.raises(Invalid, match="give one of off, on, parent"):
        set_tracing("sometimes")  # type: ignore[arg-type]
    assert switch.tracer is None


def test_missing_package_warns_by_the_variable_and_raises_in_a_program() -> None:
    out, err = run_python(WITHOUT_PACKAGE, HEADRACE_TRACING="on")
    advice = "tracing needs opentelemetry-api 1.30 or newer; run: pip install 'headrace[otel]'"
    assert out == f"None\nNotFound {advice}\n"
    assert f"HEADRACE_TRACING=on has no effect: {advice}" in err


def test_variable_switches_tracing_on() -> None:
    program = "from headrace.observe.tracing import switch; print(type(switch.tracer).__name__)"
    assert run_python(program, HEADRACE_TRACING="on") == ("MessageTracer\n", "")
