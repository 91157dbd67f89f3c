"""States go from Arrow to PostgreSQL and back as whole columns of text, unchanged."""

from __future__ import annotations

import pyarrow as pa
import pytest

from headrace.correlators import Correlator, create_correlator
from headrace.db import Connection
from headrace.evaluate.rows import STATE_SCHEMA
from headrace.spark.pipeline.stepping import read_states, write_states
from tests.builders import topic

KEYS = (
    "plain",
    "a,b",
    '"quoted"',
    "back\\slash",
    "{brace}",
    "NULL",
    "null",
    " spaced ",
    "line\nfeed",
    "ключ",
    "😀",
    ";",
    "\\",
    "",
)
MICROS = 4_102_444_800_123_457  # the year 2100, with an odd microsecond


def state(number: int, key: str) -> dict[str, object]:
    return {
        "key": key,
        "units": [number, 0],
        "deadlines": [] if number % 3 == 0 else [None, MICROS + number, None],
        "evidence": list(range(number % 4)),
        "evidence_total": number,
        "started_at": MICROS - number,
        "seen_at": MICROS + number,
        "memory": None,
    }


@pytest.mark.lane("pg18")
def test_states_of_any_key_are_read_as_they_were_written(conn: Connection) -> None:
    topic(conn, "cars")
    create_correlator(conn, Correlator(name="any", topic="cars", key="key", pattern="push(x) {a}", outputs={}))
    correlator_id = conn.execute("select correlator_id from headrace.correlator").fetchone()[0]  # type: ignore[index]
    written = [state(number, key) for number, key in enumerate(KEYS)]
    for _ in range(2):  # An insert, then an update.
        write_states(conn, correlator_id, pa.Table.from_pylist(written, STATE_SCHEMA))
    keys = pa.array(["unknown", *reversed(KEYS)], pa.string())
    assert read_states(conn, correlator_id, keys).to_pylist() == written[::-1]
    assert read_states(conn, correlator_id, pa.array(["unknown"], pa.string())).num_rows == 0
    due = conn.execute("select count(*) from headrace.correlator_instance where deadline is not null").fetchone()
    assert due == (sum(bool(row["deadlines"]) for row in written),)
