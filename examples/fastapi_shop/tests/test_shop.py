"""The shop with real processes: a web server, two nodes and PostgreSQL, some of which are killed with SIGKILL on the way.

No order is lost, and none is counted or shipped twice."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import psycopg
import pytest

from examples.fastapi_shop.setup_database import setup_database
from headrace.db import Server

ROOT = Path(__file__).parents[3]
CUSTOMERS = 20
CLIENTS = 8


class Shop:
    """A PostgreSQL of its own, and the processes of the shop."""

    def __init__(self, server: Server, folder: Path) -> None:
        self.server = server
        self._log = (folder / "processes.log").open("w")
        self._started: list[subprocess.Popen[bytes]] = []
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]

    def start(self, *command: str) -> subprocess.Popen[bytes]:
        environment = {
            **os.environ,
            "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
            "DATABASE_URL": self.server.dsn().replace("postgresql://", "postgresql+asyncpg://"),
        }
        process = subprocess.Popen(
            [sys.executable, "-m", *command], cwd=ROOT, env=environment, stdout=self._log, stderr=subprocess.STDOUT
        )
        self._started.append(process)
        return process

    def start_web(self) -> None:
        self.start("uvicorn", "examples.fastapi_shop.web:web", "--port", str(self._port), "--log-level", "warning")

    def start_node(self) -> subprocess.Popen[bytes]:
        return self.start("headrace", "node", "run", "examples.fastapi_shop.handlers:app")

    def order(self, number: int) -> None:
        """Places an order, again and again until the shop confirms it."""
        order = {"id": f"order-{number}", "customer": f"customer-{number % CUSTOMERS}", "cents": number}
        request = Request(
            f"http://127.0.0.1:{self._port}/orders", json.dumps(order).encode(), {"Content-Type": "application/json"}
        )
        deadline = time.monotonic() + 90
        while True:
            try:
                with urlopen(request, timeout=30) as answer:
                    assert answer.status == 201
                    return
            except HTTPError as error:
                assert error.code == 500, error.read()
            except (OSError, HTTPException):
                pass
            assert time.monotonic() < deadline, f"order {number} was not confirmed within 90 s"
            time.sleep(0.1)

    def customer(self, number: int) -> object:
        with urlopen(f"http://127.0.0.1:{self._port}/customers/customer-{number}", timeout=30) as answer:
            return json.loads(answer.read())

    def rows(self, statement: str) -> list[tuple[object, ...]]:
        with psycopg.connect(self.server.dsn(), autocommit=True) as conn:
            return conn.execute(statement).fetchall()  # type: ignore[arg-type]

    def wait_until(self, statement: str, *expected: object) -> None:
        deadline = time.monotonic() + 90
        rows: list[tuple[object, ...]] = []
        while rows != [expected]:
            assert time.monotonic() < deadline, f"{statement} gave {rows} and not {expected} within 90 s"
            time.sleep(0.05)
            with suppress(psycopg.OperationalError):
                rows = self.rows(statement)

    def stop(self) -> None:
        for process in self._started:
            process.kill()
            process.wait()
        self._log.close()
        # pytest shows it if the test fails.
        print(Path(self._log.name).read_text()[-5000:])  # noqa: T201


@pytest.fixture
def shop() -> Iterator[Shop]:
    # Not pytest's tmp_path: the server runs as another user where the tests run as root.
    folder = Path(tempfile.mkdtemp(prefix="headrace-shop-"))
    folder.chmod(0o755)
    server = Server(folder / "pg")
    server.start()
    setup_database(server.dsn())
    shop = Shop(server, folder)
    try:
        shop.start_web()
        yield shop
    finally:
        shop.stop()
        server.stop()
        shutil.rmtree(folder)


def run_with_kills(shop: Shop, orders: int) -> None:
    nodes = [shop.start_node(), shop.start_node()]
    # A rule matches from its creation on, and the nodes create the one of `@app.on`.
    shop.wait_until("select count(*) from headrace.node where stopped_at is null", 2)

    def kill_node() -> None:
        nodes[0].kill()
        nodes.append(shop.start_node())

    def kill_postgresql() -> None:
        shop.server.kill()
        shop.server.start()

    kills: dict[int, Callable[[], None]] = {orders // 3: kill_node, 2 * orders // 3: kill_postgresql}
    with ThreadPoolExecutor(CLIENTS + 1) as clients:
        placed = []
        for number in range(1, orders + 1):
            placed.append(clients.submit(shop.order, number))
            if kill := kills.get(number):
                placed[-CLIENTS].result()  # Requests are under way.
                kill()
        for order in placed:
            order.result()
    shop.wait_until("select count(*) from shop_order", orders)
    shop.wait_until(
        "select coalesce(sum(orders), 0)::int, coalesce(sum(cents), 0)::int from customer_total", orders, _sum(orders)
    )
    shop.wait_until("select count(distinct order_id) from shipment", orders)
    assert shop.rows("select order_id from shipment group by order_id having count(*) > 1") == []
    wrong = """select o.customer from shop_order o left join customer_total t using (customer)
        group by o.customer, t.orders, t.cents having (count(*), sum(o.cents)) is distinct from (t.orders, t.cents)"""
    assert shop.rows(wrong) == []
    assert shop.rows("select count(*) from headrace.event_dead_letter") == [(0,)]


def _sum(orders: int) -> int:
    return orders * (orders + 1) // 2


@pytest.mark.timeout(200)
def test_shop_loses_and_repeats_no_order_when_a_node_and_postgresql_are_killed(shop: Shop) -> None:
    run_with_kills(shop, 100)
    assert shop.customer(0) == {"orders": 5, "cents": 20 + 40 + 60 + 80 + 100}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_shop_under_1200_requests_loses_and_repeats_no_order(shop: Shop) -> None:
    run_with_kills(shop, 1200)
