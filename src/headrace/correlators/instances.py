"""Instances and outputs of a correlator in the database, as every engine reads and writes them.

An engine reads the instances of its keys, steps them by the compiled table, and then, in one transaction, writes them back, delivers
the outputs and moves the cursor. Sync and async callers execute the same statements with the same parameters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from headrace.db import Connection, query
from headrace.lang.condition import micros_of
from headrace.lang.ecl import Correlation, Instance

WRITE = """select headrace_internal.write_instances(%(correlator_id)s, %(keys)s::text[], %(units)s::text[], %(deadlines)s::text[],
    %(started_at)s::timestamptz[], %(seen_at)s::timestamptz[], %(evidence)s::text[], %(totals)s::integer[], %(memory)s::text[])"""
DELIVER = """select headrace_internal.deliver_correlations(%(version_id)s, %(keys)s::text[], %(positions)s::bigint[],
    %(times)s::timestamptz[], %(tokens)s::text[], %(places)s::integer[], %(evidence)s::text[], %(totals)s::integer[],
    %(captured)s::text[])"""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Parameters = dict[str, int | str]
"""Arrays are texts as PostgreSQL reads them: the driver takes several times as long to write a list."""


def moment_at(time: int) -> datetime:
    """The moment of a table's time, which is in microseconds since 1970."""
    return _EPOCH + timedelta(microseconds=time)


def read_instances(conn: Connection, correlator_id: int, keys: Sequence[str]) -> list[Instance]:
    """The instances of these keys; a key without one has had no event, or is at the start of a simple table."""
    parameters = {"correlator_id": correlator_id, "keys": list(keys)}
    return [instance_of(row) for row in conn.execute(query("correlators/read_instances"), parameters).fetchall()]


def write_instances(conn: Connection, correlator_id: int, instances: Sequence[Instance]) -> None:
    """Writes the instances of keys, new or known."""
    if instances:
        conn.execute(WRITE, instance_parameters(correlator_id, instances))


def deliver_correlations(conn: Connection, version_id: int, outputs: Sequence[Correlation]) -> int:
    """Records outputs and sends what they become, each only once. Returns how many were new."""
    if not outputs:
        return 0
    row = conn.execute(DELIVER, output_parameters(version_id, outputs)).fetchone()
    return int(row[0]) if row else 0


def instance_parameters(correlator_id: int, instances: Sequence[Instance]) -> Parameters:
    """The parameters of WRITE."""
    return {
        "correlator_id": correlator_id,
        "keys": text_array(instance.key for instance in instances),
        "units": text_array(array_literal(instance.units) for instance in instances),
        "deadlines": text_array(array_literal(instance.deadlines) for instance in instances),
        "started_at": text_array(moment_at(instance.started_at).isoformat() for instance in instances),
        "seen_at": text_array(moment_at(instance.seen_at).isoformat() for instance in instances),
        "evidence": text_array(array_literal(instance.evidence) for instance in instances),
        "totals": array_literal([instance.evidence_total for instance in instances]),
        "memory": text_array(instance.memory for instance in instances),
    }


def output_parameters(version_id: int, outputs: Sequence[Correlation]) -> Parameters:
    """The parameters of DELIVER."""
    return {
        "version_id": version_id,
        "keys": text_array(output.key for output in outputs),
        "positions": array_literal([output.position for output in outputs]),
        "times": text_array(moment_at(output.time).isoformat() for output in outputs),
        "tokens": text_array(output.token for output in outputs),
        "places": array_literal([output.place for output in outputs]),
        "evidence": text_array(array_literal(output.evidence) for output in outputs),
        "totals": array_literal([output.evidence_total for output in outputs]),
        "captured": text_array(output.values for output in outputs),
    }


def array_literal(values: Sequence[int | None]) -> str:
    """Integers as PostgreSQL reads an array of them."""
    return "{" + ",".join("null" if value is None else str(value) for value in values) + "}"


def text_array(texts: Iterable[str | None]) -> str:
    """Texts as PostgreSQL reads an array of them."""
    quoted = ("null" if text is None else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"' for text in texts)
    return "{" + ",".join(quoted) + "}"


def instance_of(row: tuple[str, list[int], list[int | None], datetime, datetime, list[int], int, str | None]) -> Instance:
    """The instance in a row of the query correlators/read_instances."""
    key, units, deadlines, started_at, seen_at, evidence, total, memory = row
    times = micros_of(started_at), micros_of(seen_at)
    return Instance(key, tuple(units), tuple(deadlines), *times, evidence, total, memory=memory)
