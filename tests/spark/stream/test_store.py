"""A stream's micro-batches, cut and repeated in any way, give the outputs of one batch over all events, each once. Without Spark."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psycopg
import pyarrow as pa
import pytest

from headrace.core import Invalid
from headrace.db import Connection, Target
from headrace.lang.condition import Sample
from headrace.spark import Access, CorrelatorSpec
from headrace.spark.backtest.comparison import Definitions
from headrace.spark.frames import Watched
from headrace.spark.frames.classified_events import classify_batches, collect_chunks
from headrace.spark.stream import StreamStore
from tests.spark.backtest.test_comparison import as_batch, scan_here
from tests.spark.reading import secret_file

pytestmark = pytest.mark.lane("pg18")
SECOND = 1_000_000
SPECS = (
    CorrelatorSpec(name="pairs", pattern="repeat {push(pair) {sequential {a, b}}}", key="key"),
    CorrelatorSpec(name="late", pattern="repeat {push(late) {sequential {a, fail {within 5 s {b}}}}}", key="key"),
    CorrelatorSpec(
        name="rising",
        pattern="capture n = (object -> 'n')::int; repeat {push(rise) {sequential {a as t, a and <n > t.n>}}}",
        key="object ->> 'account'",
    ),
    CorrelatorSpec(name="all", pattern="repeat {push(five) {loop(5) {a}}}"),
)


@pytest.fixture
def access(database: Target, conn: Connection, tmp_path: Path) -> Access:
    return Access(secret=secret_file(tmp_path, database))


def make_events(count: int, seed: int) -> pa.RecordBatch:
    chance = random.Random(seed)
    samples = [
        Sample(
            {"n": chance.randint(0, 9), "account": f"x{chance.randint(0, 3)}"}, chance.choice("aabc"), f"k{chance.randint(0, 5)}"
        )
        for _ in range(count)
    ]
    times = np.cumsum([chance.choice([0, 1, 2]) * SECOND for _ in range(count)])
    batch = as_batch(samples, times.tolist())
    return batch.set_column(batch.schema.get_field_index("offset"), "offset", pa.array(np.arange(1, count + 1)))


def write(store: StreamStore, events: pa.RecordBatch) -> int:
    watched = Watched((), SPECS)
    classified = collect_chunks(classify_batches([events], watched), watched)
    ((last, time),) = classified.ends.values()
    return store.write((None, None), last, time, classified.events, erasures=store.read_erasures()) or 0


def written(conn: Connection, stream: str) -> list[tuple[object, ...]]:
    statement = """select correlator, key, token, position, output_at, evidence from headrace.stream_output where stream = %s"""
    return sorted(conn.execute(statement, (stream,)).fetchall(), key=str)


def expected(events: pa.RecordBatch) -> list[tuple[object, ...]]:
    end = events.column("appended_at")[-1].cast(pa.int64()).as_py()
    rows = scan_here([events], Definitions((), SPECS, end))
    names = ("name", "key", "token", "position", "time", "evidence")
    return sorted((tuple(row[name] for name in names) for row in rows), key=str)


def cuts(count: int, seed: int) -> Iterator[tuple[int, int]]:
    """Ranges in order, of which some come again, whole or cut in another way."""
    chance = random.Random(seed)
    at = 0
    while at < count:
        first = max(0, at - chance.choice([0, 0, 3, 20]))
        at = min(count, at + chance.randint(1, 40))
        yield first, at - first


def test_micro_batches_cut_and_repeated_in_any_way_give_every_output_once(conn: Connection, access: Access) -> None:
    events = make_events(300, seed=5)
    store = StreamStore(access, "s", SPECS, None)
    for number, (first, length) in enumerate(cuts(300, seed=6)):
        if number % 4 == 3:
            # Another driver takes over: it has no warm states.
            store.close()
            store = StreamStore(access, "s", SPECS, None)
        write(store, events.slice(first, length))
    store.close()
    outputs = expected(events)
    assert len(outputs) > 100
    assert {row[0] for row in outputs} == {"pairs", "late", "rising", "all"}
    assert written(conn, "s") == outputs
    assert conn.execute("select position, outputs from headrace.stream").fetchone() == (300, len(outputs))


def test_two_drivers_at_once_do_not_use_each_others_states(conn: Connection, access: Access) -> None:
    events = make_events(200, seed=7)
    first, second = (StreamStore(access, "s", SPECS, None) for _ in range(2))
    for at in range(0, 200, 20):
        for store in (first, second) if at % 40 else (second, first):
            write(store, events.slice(at, 20))
    for store in (first, second):
        store.close()
    assert written(conn, "s") == expected(events)


def test_transaction_that_fails_leaves_nothing_and_is_repeated(
    conn: Connection, access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = make_events(100, seed=8)
    store = StreamStore(access, "s", SPECS, None)
    write(store, events.slice(0, 50))
    before = written(conn, "s")

    def fail(_spec: CorrelatorSpec, _outputs: pa.Table) -> None:
        raise psycopg.OperationalError("killed")

    with monkeypatch.context() as patched:
        patched.setattr(store, "_write_outputs", fail)
        with pytest.raises(psycopg.OperationalError):
            write(store, events.slice(50))
    assert written(conn, "s") == before
    write(store, events.slice(50))
    store.close()
    assert written(conn, "s") == expected(events)


def test_stream_is_not_continued_with_other_patterns(conn: Connection, access: Access) -> None:
    StreamStore(access, "s", SPECS, None).close()
    with pytest.raises(Invalid, match="was begun with other correlators"):
        StreamStore(access, "s", SPECS[:2], None)


def test_stream_is_over_one_log(conn: Connection, access: Access) -> None:
    store = StreamStore(access, "s", SPECS, None)
    store.write(("main", "orders"), 5, SECOND, {}, erasures=store.read_erasures())
    with pytest.raises(Invalid, match="is over topic orders on shard main, but the frame has events of bills"):
        store.write(("main", "bills"), 9, SECOND, {}, erasures=store.read_erasures())
    store.close()


def test_erased_key_starts_again_although_its_state_is_warm(conn: Connection, access: Access) -> None:
    conn.execute("select headrace.create_topic('orders')")
    spec = CorrelatorSpec(name="pairs", pattern="repeat {push(pair) {sequential {a, b}}}", key="key")
    store = StreamStore(access, "s", (spec,), None)
    watched = Watched((), (spec,))

    def write_events(first: int, types: str, *, erasures: object = None) -> int | None:
        batch = as_batch([Sample({}, type_, "ann") for type_ in types], [SECOND] * len(types))
        batch = batch.set_column(batch.schema.get_field_index("offset"), "offset", pa.array(range(first, first + len(types))))
        classified = collect_chunks(classify_batches([batch], watched), watched)
        last = first + len(types) - 1
        return store.write(("main", "orders"), last, SECOND, classified.events, erasures=erasures or store.read_erasures())

    write_events(1, "aba")
    before = store.read_erasures()
    conn.execute("select headrace.erase_key('orders', 'ann')")
    assert write_events(4, "b", erasures=before) is None, "what was read before may hold what was erased"
    write_events(4, "b")
    store.close()
    ((key, evidence),) = conn.execute("select key, evidence from headrace.stream_output").fetchall()
    assert key.startswith("erased-") and evidence == [1, 2]
    assert conn.execute(
        "select count(*) from headrace_internal.stream_state where key = 'ann' and state like '[[1%'"
    ).fetchone() == (0,)
