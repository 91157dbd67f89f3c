"""The embedded server starts, survives a kill, and never mistakes another process for itself."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import psycopg
import pytest

from headrace.db import Server
from tests.conftest import temporary_folder


@pytest.fixture
def own() -> Iterator[Server]:
    server = Server(temporary_folder(in_memory=True), settings={"fsync": "off"})
    server.start()
    yield server
    server.stop()
    shutil.rmtree(server.folder)


def test_killed_server_restarts_with_all_committed_data(own: Server) -> None:
    with psycopg.connect(own.dsn()) as conn:
        conn.execute("create table kept as select 7 as n")
    before = own.pid
    own.kill()
    assert own.pid is None
    own.start()
    assert own.pid not in (None, before)
    with psycopg.connect(own.dsn()) as conn:
        assert conn.execute("select n from kept").fetchone() == (7,)


def test_process_id_reused_by_another_process_is_not_a_server(own: Server) -> None:
    own.kill()
    (own.data / "postmaster.pid").write_text(f"{os.getpid()}\n")
    assert own.pid is None
    own.stop()
    (own.data / "postmaster.pid").unlink()
