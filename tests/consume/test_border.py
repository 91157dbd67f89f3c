"""More partitions while a consumer claims: a key's events keep their order."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from headrace.db import Connection, Target, connect
from headrace.log.topics import alter_topic
from tests.builders import drain, publish, topic, wait_until

_SLOW_BOUND = """
alter function headrace_internal.consumer_bound rename to quick_bound;
create function headrace_internal.consumer_bound(p_consumer_id bigint, p_topic_id integer) returns bigint
language plpgsql stable
as $$
declare
    v_bound bigint := headrace_internal.quick_bound(p_consumer_id, p_topic_id);
begin
    perform pg_advisory_xact_lock_shared(14);
    return v_bound;
end
$$
"""


def test_claim_reads_the_border_and_the_events_by_one_snapshot(conn: Connection, second: Connection, database: Target) -> None:
    """The claim stands still after it has read the border; then partitions are added and events written behind it."""
    topic(conn, partitions=1)
    conn.execute("select headrace.create_consumer('orders', 'c')")
    for n in range(1, 11):
        publish(conn, n, key=f"k{n}")
    drain(conn)
    conn.execute(_SLOW_BOUND)

    def claim() -> list[tuple[int, int]]:
        with connect(database) as own:
            return own.execute("select partition, upto from headrace.claim(1, 100, p_partitions => 8)").fetchall()

    with ThreadPoolExecutor() as threads:
        with second.transaction():
            second.execute("select pg_advisory_xact_lock(14)")
            claiming = threads.submit(claim)
            waits = "select count(*) > 0 from pg_locks where locktype = 'advisory' and not granted"
            wait_until(lambda: conn.execute(waits).fetchone() == (True,), "the claim reads the border")
            alter_topic(conn, "orders", partitions=8)
            for n in range(11, 31):
                publish(conn, n, key=f"k{n % 10 + 1}")
            drain(conn)
        claims = claiming.result()
    assert claims == [(0, 10)], "events behind the border wait until every partition has reached it"
