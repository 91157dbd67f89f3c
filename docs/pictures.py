"""Takes the pictures of docs/console.md: `python docs/pictures.py`, or `make pictures`.

Runs a part of the demo on a database in a temporary folder, leaves its node running, and photographs the main pages with chromium."""

from __future__ import annotations

import io
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

import uvicorn
from PIL import Image
from playwright.sync_api import Page, sync_playwright

from headrace.core import Event
from headrace.db import Target, connect
from headrace.demo import Demo, open_own_environment
from headrace.demo.environment import run_node
from headrace.log.outbox import publish_many
from headrace.schedules import create_schedule
from headrace.web.console import create_app

PICTURES = Path(__file__).parent / "pictures"
SIZE = {"width": 1280, "height": 800}
BYTES_MAX = 60_000
COLOURS = (256, 128, 64, 32)
WATCH_S = 30.0
"""The first page is open for this long before its picture: the charts need points."""
DELAYED = {"topic": "flights", "where": "(object ->> 'delay_min')::int > 120", "match": "all"}


def main() -> None:
    browser_path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser_path is None:
        raise SystemExit("chromium is not installed; run: apt-get install chromium")
    PICTURES.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="headrace-pictures-"))
    folder.chmod(0o755)
    try:
        with open_own_environment({**os.environ, "HEADRACE_DATA": str(folder)}) as environment:
            for _ in Demo(environment, flights=6_000, spark=False).run():
                pass
            with connect(environment.target) as conn:
                create_schedule(
                    conn,
                    "morning-report",
                    cron="30 6 * * MON-FRI",
                    topic="operations",
                    type="report.due",
                    zone="America/New_York",
                )
            with (
                run_node(environment, folder / "node.log"),
                publishing(environment.target),
                serving(environment.target) as address,
            ):
                photograph(browser_path, address, environment.target)
    finally:
        shutil.rmtree(folder)


def photograph(browser_path: str, address: str, target: Target) -> None:
    with sync_playwright() as playwright:
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=browser_path, args=options)
        page = browser.new_page(viewport=SIZE, color_scheme="light")  # type: ignore[arg-type]
        page.goto(address)
        page.wait_for_timeout(WATCH_S * 1_000)
        for name, path in addresses(target).items():
            page.goto(address + path)
            # A stream keeps the network busy: wait for the page itself and its fonts, then for the first renewal.
            page.wait_for_timeout(3_000)
            save(page, name)
        browser.close()


def addresses(target: Target) -> dict[str, str]:
    with connect(target) as conn:
        [event] = (
            conn.execute(
                """select f.event_id from headrace.firing f join headrace.action_result r using (action_id)
            where r.outcome = 'dead' order by f.firing_id desc limit 1"""
            ).fetchone()
            or conn.execute("select event_id from headrace.firing limit 1").fetchone()
            or [""]
        )
        [key] = conn.execute(
            """select i.key from headrace.correlator_instance i join headrace.correlator c using (correlator_id)
            where c.correlator = 'overdue' and cardinality(i.evidence) > 0 order by i.evidence_total desc limit 1"""
        ).fetchone() or [""]
        [shown] = conn.execute("select max(l.position) from headrace.log l where l.type = 'flight.departed'").fetchone() or [0]
    return {
        "now": "/",
        "events": f"/events?{urlencode({**DELAYED, 'show': shown})}",
        "event": f"/events/{event}",
        "consumers": "/consumers",
        "rule": "/rules/long%20delay",
        "correlator": f"/correlators/overdue?{urlencode({'key': key})}",
        "dead-letters": "/dead-letters",
        "schedule": "/schedules/morning-report",
        "nodes": "/nodes",
    }


def save(page: Page, name: str) -> None:
    """A PNG with so few colours that it stays small."""
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    path = PICTURES / f"{name}.png"
    for colours in COLOURS:
        picture.quantize(colours, dither=Image.Dither.NONE).save(path, optimize=True)
        if path.stat().st_size <= BYTES_MAX:
            break
    sys.stdout.write(f"{path.name}: {path.stat().st_size / 1000:.0f} kB\n")
    if path.stat().st_size > BYTES_MAX:
        raise SystemExit(f"{path} has more than {BYTES_MAX} bytes")


@contextmanager
def serving(target: Target) -> Iterator[str]:
    config = uvicorn.Config(create_app([target]), host="127.0.0.1", port=0, log_level="error", timeout_graceful_shutdown=1)
    socket = config.bind_socket()
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [socket]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{socket.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


@contextmanager
def publishing(target: Target) -> Iterator[None]:
    """Somebody publishes while the pictures are taken, now more, now less."""
    is_over = threading.Event()

    def publish() -> None:
        with connect(target) as conn:
            while not is_over.wait(0.5):
                count = 5 + int(time.time() / 3) % 4 * 5
                publish_many(
                    conn,
                    [Event(topic="operations", type="gate.changed", key=f"gate-{n}", payload={"gate": n}) for n in range(count)],
                )

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


if __name__ == "__main__":
    main()
