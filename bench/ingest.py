"""HTTP in against the least that one would write by hand: Starlette and an INSERT, on the same server, driver and number of connections.

Rounds in turns. The rate depends on what else the machine does and on the generator of load, which shares its cores; the CPU time of
web server and database per request hardly does. Ours checks token, rights, rate and event, and writes into the outbox."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from bench.ingest_servers import TABLE
from bench.lab import Lab, settle, surroundings
from bench.result import Figure, Round, Side, cpu_ratio, ratio, report
from headrace.db import Connection, Target, connect
from headrace.web.http import create_access_token

CLIENTS = 16
BODY = json.dumps({"order": 4711, "customer": "c-17", "items": [{"sku": "a-1", "n": 2}, {"sku": "b-7", "n": 1}], "total": 129.90})
BATCH = json.dumps(
    [
        {"specversion": "1.0", "id": f"i{n}", "source": "/bench", "type": "order.placed", "data": json.loads(BODY)}
        for n in range(100)
    ]
)


def run(lab: Lab, *, quick: bool) -> None:
    rounds, seconds = (1, 1.0) if quick else (5, 2.5)
    with lab.database("ingest", partitions=4) as target, connect(target) as conn:
        conn.execute(TABLE)
        token = create_access_token(conn, "bench", ["publish"]).token
        with serving("ours", target) as ours, serving("bare", target) as bare:
            plain = {"content-type": "application/json", "authorization": f"Bearer {token}"}
            path = "/topics/bench/events?type=order.placed&key=c-17"
            cases = {
                "ours": (ours, path, plain, BODY),
                "bare": (bare, path, plain, BODY),
                "ours with Idempotency-Key": (ours, path, {**plain, "idempotency-key": "{n}"}, BODY),
                "ours, batches of 100": (
                    ours,
                    "/topics/bench/events",
                    {**plain, "content-type": "application/cloudevents-batch+json"},
                    BATCH,
                ),
            }
            sides: dict[str, list[Round]] = {name: [] for name in cases}
            for name, case in cases.items():  # Warm: pools, prepared statements, the direct way into the outbox.
                drive(lab, *case, seconds=0.5)
                del name
            for _ in range(rounds):
                for name, case in cases.items():
                    settle(conn)
                    sides[name].append(drive(lab, *case, seconds=seconds))
                    empty(conn)
    done = {name: Side(name, results) for name, results in sides.items()}
    batches = done["ours, batches of 100"]
    figures = [
        ratio("requests/s against Starlette + INSERT", done["ours"], done["bare"], 0.7),
        cpu_ratio("CPU of web server and database against Starlette + INSERT", done["ours"], done["bare"], 0.7),
        ratio("the same with an Idempotency-Key", done["ours with Idempotency-Key"], done["bare"], 0.4),
        Figure(
            "events/s in batches of 100", batches.rate * 100, 1000, "/s", detail=f"CPU {batches.cpu_us / 100:.0f} µs per event"
        ),
    ]
    report("ingest", surroundings(lab), figures, {"sides": list(done.values()), "clients": CLIENTS})


class WebServer:
    """A running server."""

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self.process = process
        self.port = port


@contextmanager
def serving(kind: str, target: Target) -> Iterator[WebServer]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, "-m", "bench.ingest_servers", kind, target.dsn, str(port)])
    try:
        deadline = time.monotonic() + 30
        while True:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            assert time.monotonic() < deadline and process.poll() is None, f"the server {kind} did not start"
            time.sleep(0.05)
        yield WebServer(process, port)
    finally:
        process.terminate()
        process.wait()


def drive(lab: Lab, server: WebServer, path: str, headers: dict[str, str], body: str, *, seconds: float) -> Round:
    """One round: requests per second, and CPU of web server and database per request."""
    words = [str(server.port), str(CLIENTS), str(seconds), path, json.dumps(headers), body]
    before = lab.cpu_s([server.process.pid])
    answer = subprocess.run([sys.executable, "-m", "bench.http_load", *words], check=True, capture_output=True, text=True).stdout
    used_s = lab.cpu_s([server.process.pid]) - before
    counts = json.loads(answer)
    assert counts["bad"] == 0 and counts["good"] > 0, counts
    return Round(counts["good"] / counts["seconds"], used_s * 1e6 / counts["good"])


def empty(conn: Connection) -> None:
    """Both sides begin each round with empty tables."""
    conn.execute("truncate headrace_internal.outbox, headrace_internal.idempotency_key, bare_event")
