"""What the pages of the console cost the database.

10 million events, 1 000 cursors that are all behind, 100 000 dead letters of actions and as many of events, 1 000 hooks, 1 000 access
tokens, 50 relays. Every page is opened several times; its figure is the sum of the durations that the server itself logs for the
statements of one opening.

HEADRACE_BENCH_EVENTS sets the number of events."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode
from urllib.request import urlopen

from starlette.routing import Route

from bench.child import child
from bench.console_filling import CURSORS, KEYS, Sample, fill_console, read_sample
from bench.lab import Lab, settle, surroundings
from bench.metrics import low_quarter
from bench.result import Figure, report
from headrace.db import Target, connect
from headrace.web.console.app import page_routes

PAGE_MS = 200.0
DURATION = re.compile(r"LOG:  duration: ([\d.]+) ms")


def run(lab: Lab, *, quick: bool) -> None:
    facts = surroundings(lab)
    events = int(os.environ.get("HEADRACE_BENCH_EVENTS", 200_000 if quick else 10_000_000))
    figures, raw = measure_pages(lab, events=events, letters=2_000 if quick else 100_000, rounds=3 if quick else 8)
    report("console", facts, figures, {"events": events, "cursors": CURSORS, "pages_ms": raw})


@dataclass
class ServerLog:
    """The server's log, which has the duration of every statement."""

    path: Path

    def durations_ms(self, start: int) -> list[float]:
        with self.path.open("rb") as file:
            file.seek(start)
            return [float(text) for text in DURATION.findall(file.read().decode(errors="replace"))]

    @property
    def size(self) -> int:
        return self.path.stat().st_size


def measure_pages(lab: Lab, *, events: int, letters: int, rounds: int) -> tuple[list[Figure], dict[str, list[float]]]:
    """Each page's database time in milliseconds."""
    with lab.database("console", partitions=4) as target:
        with connect(target) as conn:
            started = time.monotonic()
            fill_console(target, conn, events=events, letters=letters)
            print(f"filled in {time.monotonic() - started:.0f} s", flush=True)
            sample = read_sample(conn)
            settle(conn)
            conn.execute("alter database console set log_min_duration_statement = 0")
            conn.execute("alter database console set log_parameter_max_length = 0")
        taken, cpu_ms = open_pages(lab, target, sample, rounds=rounds)
    figures = [
        Figure(
            name, low_quarter(values), PAGE_MS, "ms", at_most=True, detail=f"highest {max(values):.0f}, CPU {cpu_ms[name]:.0f}"
        )
        for name, values in taken.items()
    ]
    return figures, taken


def open_pages(lab: Lab, target: Target, sample: Sample, *, rounds: int) -> tuple[dict[str, list[float]], dict[str, float]]:
    """The durations of each page's openings in milliseconds, and the server's CPU per opening, to the hundredth of a second: on a busy
    machine durations are mostly waiting."""
    log = ServerLog(lab.server.data / "server.log")
    taken: dict[str, list[float]] = {}
    cpu_ms: dict[str, float] = {}
    with serve_console(target) as address:
        for name, url in page_urls(sample).items():
            # The first opening fills caches: of the console, of the connections, of the server.
            _open(address + url)
            before = lab.cpu_s()
            for _ in range(rounds):
                start = log.size
                _open(address + url)
                taken.setdefault(name, []).append(sum(log.durations_ms(start)))
            cpu_ms[name] = (lab.cpu_s() - before) * 1000 / rounds
    return taken, cpu_ms


def _open(url: str) -> None:
    with urlopen(url) as answer:
        assert answer.status == 200, url
        answer.read()


def page_urls(sample: Sample) -> dict[str, str]:
    """Every page of the console, and the views of some that cost most. A page without an address here is a mistake."""
    group = {"kind": "action", "source": "queue", "name": "CHARGE", "reason": "failed", "error": sample.error_group}
    events = {"kind": "event", "source": sample.consumer, "reason": "failed", "error": sample.error_group}
    known = {
        "/": "/",
        "/events": "/events?topic=bench",
        "/events/publish": "/events/publish?topic=bench",
        "/events/{event_id}": f"/events/{sample.event_id}",
        "/topics": "/topics",
        "/topics/create": "/topics/create",
        "/topics/{topic}": "/topics/bench",
        "/consumers": "/consumers",
        "/consumers/create": "/consumers/create",
        "/consumers/{topic}/{consumer}": f"/consumers/{sample.consumer}",
        "/rules": "/rules",
        "/rules/-/create": "/rules/-/create",
        "/rules/-/edit": "/rules/-/edit?rule=large",
        "/rules/{name:path}": "/rules/large",
        "/correlators": "/correlators",
        "/correlators/-/create": "/correlators/-/create",
        "/correlators/{name:path}": f"/correlators/unpaid?key={KEYS}",
        "/correlators/-/edit": "/correlators/-/edit?correlator=unpaid",
        "/schedules": "/schedules",
        "/schedules/-/create": "/schedules/-/create",
        "/schedules/-/edit": "/schedules/-/edit?schedule=nightly",
        "/schedules/{name:path}": "/schedules/nightly",
        "/actions": "/actions",
        "/actions/{action}": f"/actions/{sample.action_id}",
        "/dead-letters": "/dead-letters",
        "/dead-letters/group": f"/dead-letters/group?{urlencode(group)}",
        "/dead-letters/letter/{letter:path}": f"/dead-letters/letter/{sample.letter_id}",
        "/nodes": "/nodes",
        "/relays": "/relays",
        "/relays/{name:path}": "/relays/crm",
        "/relays/-/create": "/relays/-/create",
        "/relays/-/edit": "/relays/-/edit?relay=crm&plan=now",
        "/hooks": "/hooks",
        "/hooks/-/create": "/hooks/-/create",
        "/hooks/{hook}": "/hooks/github",
        "/access-tokens": "/access-tokens",
        "/access-tokens/-/create": "/access-tokens/-/create",
        "/palette": "/palette?q=topic",
    }
    missing = {route.path for route in page_routes() if isinstance(route, Route) and "GET" in (route.methods or ())}
    assert not (missing := missing - set(known) - {"/login", "/metrics"}), f"no address for {missing}"
    return known | {
        "events from the middle": f"/events?topic=bench&from={sample.position}",
        "events at a time": f"/events?{urlencode({'topic': 'bench', 'from': sample.at})}",
        "events of a rare key": "/events?topic=bench&key=nobody",
        "events of a rare condition": f"/events?{urlencode({'topic': 'bench', 'where': _RARE})}",
        "trial of a rule": f"/rules/-/edit?{urlencode({'rule': 'large', 'plan': '1', 'events': '1000', **_RULE})}",
        "actions that ended": "/actions?state=ended",
        "dead letters, deep in a group": f"/dead-letters/group?{urlencode({**group, 'after': str(sample.letter_id)})}",
        "dead letters of events": f"/dead-letters/group?{urlencode(events)}",
        "seek, preview": f"/consumers/{sample.consumer}?to=earliest",
    }


_RARE = "(object ->> 'total')::int < 0"
_RULE = {"topic": "bench", "event_type": "order.placed", "condition": _RARE, "action": "REVIEW"}


@contextmanager
def serve_console(target: Target) -> Iterator[str]:
    """The console in a process of its own; yields its address."""
    with child("bench.console_server", target.dsn) as process:
        yield process.ask()["address"]
