"""The guide about HTTP runs as it is written, with a real server, the command line and curl."""

from __future__ import annotations

import pytest

from headrace.core import Address
from headrace.db import Connection, Target
from headrace.log.topics import create_topic, read_log
from headrace.node import Headrace
from headrace.web.http import IngestServer, IngestSettings
from tests.debian import find_program

from .guide import run_guide


@pytest.mark.lane("pg18")
async def test_http_guide_runs(database: Target, conn: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    find_program("curl")
    find_program("openssl")
    secret = "it's a secret to everybody"
    monkeypatch.setenv("HEADRACE_SECRET_DEFAULT__GITHUB", secret)
    for name in ("orders", "code"):
        create_topic(conn, name)
    settings = IngestSettings(address=Address("127.0.0.1", 0))
    async with Headrace().running([database]), IngestServer([database], settings).serving() as address:
        names = await run_guide("http", database, conn, {"URL": f"http://{address}", "SECRET": secret})
    assert names["blocks_run"] == 8
    assert [event.type for event in read_log(conn, "orders")] == ["order.placed"] * 3 + ["order.paid"] * 2
    (event,) = read_log(conn, "code")
    assert (event.type, event.key, event.headers["webhook_id"]) == ("github.issues", "ada/engine", "72d3162e")
