"""headrace.read against COPY by psycopg into an Arrow table, one connection each, the same columns.

The other side is what one would write without us: COPY … TO STDOUT as CSV, parsed by Arrow's own reader into the same types, in any
order; headrace.read gives the order of positions. Measured too: COPY with an `order by`, and psycopg's rows of a binary COPY."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO

import pyarrow as pa
import pyarrow.csv

import headrace
from bench.lab import Lab, surroundings
from bench.result import Round, Side, ratio, report
from bench.spark_source import FILL, FILL_STEP
from headrace.db import Connection, Target, connect

ROWS = """
select l.position, l.type, l.key, l.payload, l.emitted_at, l.appended_at, l.event_id, l.headers, l.partition, l.producer
from headrace.log l join headrace.topic t on t.topic_id = l.topic_id where t.topic = 'bench'"""
IN_ORDER = f"{ROWS} order by l.position"
TYPES = ["int8", "text", "text", "jsonb", "timestamptz", "timestamptz", "uuid", "jsonb", "int4", "text"]


@dataclass(frozen=True)
class Plan:
    rows: int
    rounds: int


FULL = Plan(rows=500_000, rounds=5)
QUICK = Plan(rows=50_000, rounds=2)


def run(lab: Lab, *, quick: bool) -> None:
    plan = QUICK if quick else FULL
    conditions = surroundings(lab)
    with lab.database("read", partitions=2) as target, connect(target) as conn:
        for first in range(1, plan.rows + 1, FILL_STEP):
            conn.execute(FILL, {"first": first, "last": min(first + FILL_STEP - 1, plan.rows)})
        conn.execute("vacuum analyze headrace_internal.log")
        conn.execute("checkpoint")
        sides = _measure(lab, conn, target, plan)
    conditions["rows"] = plan.rows
    figures = [
        ratio("headrace.read : COPY csv by psycopg into Arrow", sides["read"], sides["copy csv"], 1.2),
        ratio("headrace.read : the same COPY in order", sides["read"], sides["copy csv in order"], 1.2),
        ratio("headrace.read : rows of a binary COPY by psycopg", sides["read"], sides["copy rows"], 1.2),
        ratio("one column and a condition : whole rows", sides["narrow"], sides["read"], 1.0),
    ]
    report("read", conditions, figures, dict(sides))


def _measure(lab: Lab, conn: Connection, target: Target, plan: Plan) -> dict[str, Side]:
    schema = headrace.read("bench", dsn=target).schema
    whole = headrace.read("bench", dsn=target).to_arrow()
    assert whole == copy_csv(conn, schema, IN_ORDER), "both sides must give the same table"
    condition = "(object -> 'amount')::numeric > 900"
    ways: dict[str, Callable[[], pa.Table]] = {
        "copy csv": lambda: copy_csv(conn, schema, ROWS),
        "read": lambda: headrace.read("bench", dsn=target).to_arrow(),
        "copy csv in order": lambda: copy_csv(conn, schema, IN_ORDER),
        "narrow": lambda: headrace.read("bench", dsn=target, columns=["position"], where=condition).to_arrow(),
    }
    sides = {name: Side(name, []) for name in [*ways, "copy rows"]}
    for number in range(plan.rounds + 1):
        for name, way in ways.items():
            measured = _round(lab, plan.rows, way)
            if number:  # The first round warms caches.
                sides[name].rounds.append(measured)
        if number:
            sides["copy rows"].rounds.append(_round(lab, plan.rows, lambda: copy_rows(conn, schema)))
    return sides


def _round(lab: Lab, rows: int, way: Callable[[], object]) -> Round:
    began, cpu = time.perf_counter(), lab.cpu_s([os.getpid()])
    way()
    return Round(rows / (time.perf_counter() - began), 1e6 * (lab.cpu_s([os.getpid()]) - cpu) / rows)


def copy_csv(conn: Connection, schema: pa.Schema, statement: str) -> pa.Table:
    """The rows by COPY as CSV, parsed by Arrow."""
    text = BytesIO()
    with conn.cursor() as cursor, cursor.copy(f"copy ({statement}) to stdout (format csv)".encode()) as copy:
        for data in copy:
            text.write(data)
    text.seek(0)
    table = pa.csv.read_csv(
        text,
        read_options=pa.csv.ReadOptions(column_names=schema.names),
        parse_options=pa.csv.ParseOptions(newlines_in_values=True),
        convert_options=pa.csv.ConvertOptions(
            column_types=schema, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
        ),
    )
    return table.cast(schema)


def copy_rows(conn: Connection, schema: pa.Schema) -> pa.Table:
    """The rows of a binary COPY as psycopg gives them: Python objects."""
    with conn.cursor() as cursor, cursor.copy(f"copy ({ROWS}) to stdout (format binary)".encode()) as copy:
        copy.set_types(TYPES)
        columns = list(zip(*copy.rows(), strict=True))
    arrays = []
    for field, values in zip(schema, columns, strict=True):
        texts = [None if value is None else str(value) for value in values] if pa.types.is_string(field.type) else values
        arrays.append(pa.array(texts, field.type))
    return pa.Table.from_arrays(arrays, schema=schema)
