"""An export is a complete file that other readers take, or no file at all."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import polars
import pyarrow.parquet as pq
import pytest

import headrace
from headrace.core import Conflict, Invalid
from headrace.db import Connection, Target
from headrace.log.arrow import EXPORT_FORMATS, export
from tests.cli.conftest import call
from tests.log.archive.builders import archive_orders, drop, three_days

pytestmark = pytest.mark.lane("pg18")


@pytest.fixture
def orders(conn: Connection, database: Target, tmp_path: Path) -> Target:
    """Positions 1 to 40, of which the log has dropped 1 to 30."""
    three_days(conn)
    archive_orders(conn, database, tmp_path / "archive", days=6)
    drop(conn, days=6)
    return database


def test_every_format_holds_the_events(orders: Target, tmp_path: Path) -> None:
    events = headrace.read("orders", dsn=orders)
    table = events.to_arrow()
    for format in EXPORT_FORMATS:
        path = tmp_path / f"orders.{format}"
        *_, end = export(events, path)
        assert end.events == 40
    assert pq.read_table(tmp_path / "orders.parquet") == table
    assert polars.read_ipc(tmp_path / "orders.arrow").equals(events.to_polars())
    assert duckdb.sql(f"select payload from '{tmp_path}/orders.csv' order by position").fetchall() == [
        (payload,) for payload in table.column("payload").to_pylist()
    ]
    lines = [json.loads(line) for line in (tmp_path / "orders.jsonl").read_text().splitlines()]
    assert [(line["position"], line["payload"]) for line in lines] == [
        (row["position"], json.loads(row["payload"])) for row in table.to_pylist()
    ]
    assert '"big":123456789012345678901234567890' in (tmp_path / "orders.jsonl").read_text().replace(": ", ":")


def test_interrupted_export_leaves_no_file(orders: Target, tmp_path: Path) -> None:
    folder = tmp_path / "exports"
    folder.mkdir()
    writing = export(headrace.read("orders", dsn=orders), folder / "orders.csv")
    next(writing)
    writing.close()
    assert list(folder.iterdir()) == []


def test_existing_file_is_kept_unless_asked_otherwise(orders: Target, tmp_path: Path) -> None:
    path = tmp_path / "orders.csv"
    path.write_text("mine")
    events = headrace.read("orders", dsn=orders)
    with pytest.raises(Conflict, match="exists already"):
        list(export(events, path))
    assert path.read_text() == "mine"
    list(export(events, path, overwrite=True))
    assert path.read_text().startswith('"position"')
    with pytest.raises(Invalid, match=r"does not tell the format; end it with .parquet, .arrow, .csv, .jsonl"):
        list(export(events, tmp_path / "orders.xls"))


def test_command_exports_a_selection(orders: Target, tmp_path: Path) -> None:
    path = tmp_path / "paid.jsonl"
    words = ["--type", "paid", "--from", "10", "--where", "key is not null", "--column", "position", "--column", "type"]
    result = call("topic", "export", "orders", str(path), *words, "--json", "--dsn", orders.dsn)
    assert result.code == 0, result.err
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["position"] for line in lines] == [12, 18, 21, 24, 27, 33, 36, 39]
    assert result.json == {"topic": "orders", "events": 8, "file": str(path), "file_bytes": path.stat().st_size}
    again = call("topic", "export", "orders", str(path), "--dsn", orders.dsn)
    assert again.code == 4 and "exists already" in again.err
    call("topic", "export", "orders", str(path), "--overwrite", "--dsn", orders.dsn)
    assert len(path.read_text().splitlines()) == 40
