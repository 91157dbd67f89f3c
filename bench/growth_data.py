"""The large installations of `bench growth`, written directly into headrace's tables: through publish they would take hours.

What is filled can be filled further: a folder that is kept (`--folder`) goes on where an interrupted run stopped."""

from __future__ import annotations

import time

from bench.spark_match import mixture
from headrace.db import Connection

CHUNK = 1_000_000

# A history table in place of the current month's partition: its indexes are built once, after all rows are there. The check keeps the
# attachment from reading them again. Event ids rise, as version 7 does.
HISTORY_TABLE = """
create table if not exists public.history (like headrace_internal.log including defaults,
    constraint history_month check (appended_at >= {first} and appended_at < {end} and appended_at is not null))"""
FILL_HISTORY = """
insert into public.history (topic_id, position, event_id, partition, type, key, payload, headers, emitted_at, appended_at)
select %(topic_id)s, n, ('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 0, 'car.new', (n %% 1000)::text, p.payload,
    p.headers, now(), now()
from generate_series(%(first)s::bigint, %(last)s::bigint) n, (select '{"n": 1}'::jsonb as payload, '{}'::jsonb as headers offset 0) p"""
INDEXES = (
    "create index on public.history (position)",
    "create index on public.history (partition, position)",
    "create index on public.history (event_id)",
)
# As many instances as asked for, all in the state of the one that the engine has made.
FILL_KEYS = """
insert into headrace_internal.correlator_instance
    (correlator_id, key, units, deadlines, deadline, started_at, seen_at, evidence, evidence_total, memory)
select i.correlator_id, n::text, i.units, i.deadlines, i.deadline, i.started_at, i.seen_at, i.evidence, i.evidence_total, i.memory
from headrace_internal.correlator_instance i, generate_series(%(first)s::bigint, %(last)s::bigint) n
where i.key = '0'
on conflict do nothing"""


def fill_log(conn: Connection, topic: str, rows: int, *, seconds: float = float("inf")) -> bool:
    """Gives a topic a log of this many rows, all in the current time partition; False if the time was over before."""
    if not rows or _fetch(conn, "select count(*) from pg_catalog.pg_class where relname = 'history_attached'"):
        return True
    topic_id = _fetch(conn, "select headrace.topic_id(%s)", (topic,))
    branch = f"headrace_internal.log_{topic_id}"
    partition, first, end = _current_partition(conn, branch)
    conn.execute(HISTORY_TABLE.format(first=first, end=end))  # type: ignore[arg-type]
    conn.execute("alter table public.history set (autovacuum_enabled = false)")
    filled, deadline = _fetch(conn, "select coalesce(max(position), 0) from public.history"), time.monotonic() + seconds
    if not _has_indexes(conn):
        while filled < rows:
            if time.monotonic() > deadline:
                return False
            last = min(filled + CHUNK, rows)
            conn.execute(FILL_HISTORY, {"topic_id": topic_id, "first": filled + 1, "last": last})
            filled = last
    conn.execute("set maintenance_work_mem = '512MB'")
    for number, statement in enumerate(INDEXES):
        if _fetch(conn, "select count(*) from pg_catalog.pg_indexes where tablename = 'history'") <= number:
            if time.monotonic() > deadline:
                return False
            conn.execute(statement)  # type: ignore[arg-type]
    conn.execute("vacuum (analyze) public.history")
    with conn.transaction():
        conn.execute(f"alter table {branch} detach partition {partition}")  # type: ignore[arg-type]
        conn.execute(f"drop table {partition}")  # type: ignore[arg-type]
        conn.execute(f"alter table {branch} attach partition public.history for values from ({first}) to ({end})")  # type: ignore[arg-type]
        conn.execute("create table public.history_attached ()")
        conn.execute("alter table public.history reset (autovacuum_enabled)")
    return True


def _has_indexes(conn: Connection) -> bool:
    return _fetch(conn, "select count(*) from pg_catalog.pg_indexes where tablename = 'history'") > 0


def _current_partition(conn: Connection, branch: str) -> tuple[str, str, str]:
    """The name of the partition that has today, and its bounds as literals."""
    rows = conn.execute(
        "select c.oid::regclass::text, pg_catalog.pg_get_expr(c.relpartbound, c.oid) from pg_catalog.pg_inherits i "
        "join pg_catalog.pg_class c on c.oid = i.inhrelid where i.inhparent = %s::regclass order by 1",
        (branch,),
    ).fetchall()
    for name, bound in rows:
        first, end = (part.strip("()") for part in bound.removeprefix("FOR VALUES FROM ").split(" TO "))
        if _fetch(conn, "select now() >= %s::timestamptz and now() < %s::timestamptz", (first.strip("'"), end.strip("'"))):
            return name, first, end
    raise RuntimeError(f"{branch} has no partition for today")


def fill_keys(conn: Connection, keys: int, *, seconds: float = float("inf")) -> bool:
    """Fills the only correlator's instances up to this many keys, like that of key 0; False if the time was over before."""
    deadline = time.monotonic() + seconds
    filled = _fetch(conn, "select count(*) from headrace_internal.correlator_instance")
    while filled < keys:
        if time.monotonic() > deadline:
            return False
        last = min(filled + CHUNK, keys)
        conn.execute(FILL_KEYS, {"first": filled, "last": last - 1})
        filled = last
    conn.execute("vacuum (analyze) headrace_internal.correlator_instance")
    return True


def write_rules(conn: Connection, topic: str, rules: int, *, seconds: float = float("inf")) -> bool:
    """Writes rules of mixed shapes; False if the time was over before."""
    deadline = time.monotonic() + seconds
    written = _fetch(conn, "select count(*) from headrace.rule")
    specs = [(spec.name, topic, spec.event_type, spec.condition) for spec in mixture(rules)]
    while written < rules:
        if time.monotonic() > deadline:
            return False
        with conn.transaction():
            conn.cursor().executemany(
                "insert into headrace.rule (rule, topic, event_type, condition, action) values (%s, %s, %s, %s, 'NOTIFY')",
                specs[written : written + 2000],
            )
        written = min(written + 2000, rules)
    return True


def _fetch(conn: Connection, statement: str, parameters: tuple[object, ...] = ()) -> int:
    row = conn.execute(statement, parameters).fetchone()  # type: ignore[arg-type]
    assert row is not None
    return int(row[0])
