"""Columns of Arrow reach PostgreSQL as they are."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from headrace.db import Connection
from headrace.spark.binary_arrays import ArrowArray, register_arrow_arrays

MOMENT = pa.timestamp("us", "Europe/Zurich")


@pytest.mark.parametrize(
    ("column", "type_"),
    [
        (pa.array(["a", None, "", 'quote " and \\ and {,}', "NULL", "日本 🎈"]), "text[]"),
        (pa.array(["x", "longer", None, "y"]).slice(1, 2), "text[]"),
        (pa.array([None, None], pa.string()), "text[]"),
        (pa.array([], pa.string()), "text[]"),
        (pa.chunked_array([["a"], ["b", None]]), "text[]"),
        (pa.array([1, -(2**63), None, 2**63 - 1]), "bigint[]"),
        (pa.array([7, None, -1], pa.int32()), "integer[]"),
        (pa.array([datetime(1969, 7, 20, 20, 17, 40, 123456, UTC), None, datetime(9999, 12, 30, tzinfo=UTC)], MOMENT), "timestamptz[]"),
    ],
)  # fmt: skip
def test_every_element_arrives_unchanged(conn: Connection, column: pa.Array, type_: str) -> None:
    register_arrow_arrays(conn)
    row = conn.execute("select %s, pg_typeof(%s)::text", (ArrowArray(column), ArrowArray(column))).fetchone()
    assert row is not None
    internal = {"timestamptz[]": "timestamp with time zone[]"}.get(type_, type_)
    assert row == (column.to_pylist(), internal)
