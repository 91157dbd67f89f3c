"""Shards: keys stay on their shard, a new shard takes only its share, an unreachable shard does not stop the others."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from uuid import uuid4

import psycopg
import pytest

from headrace.core import LoggedEvent, ShardUnavailable
from headrace.db import AsyncConnection, Server, Shards, Target, connect
from headrace.db.server import free_port
from headrace.log.topics import create_topic
from headrace.node import Headrace, Node
from tests.builders import drain, numbers, publish

KEYS = [f"customer-{n}" for n in range(2000)]


def named(*names: str) -> Shards:
    return Shards([Target(name, f"postgresql://nowhere/{name}") for name in names])


def moved_keys(before: Shards, after: Shards) -> list[str]:
    """The keys that belong to another shard with another set of shards."""
    return [key for key in KEYS if before.shard_of(key).name != after.shard_of(key).name]


@pytest.fixture
def three(server: Server) -> Iterator[list[Target]]:
    """Three migrated databases with the same topic."""
    names = [f"shard_{letter}_{uuid4().hex[:8]}" for letter in "abc"]
    with psycopg.connect(server.dsn(), autocommit=True) as admin:
        for name in names:
            admin.execute(f"create database {name} template headrace_template")
    shards = [Target(name[6], server.dsn(name)) for name in names]
    for shard in shards:
        with connect(shard) as conn:
            create_topic(conn, "orders", partitions=2)
    yield shards
    with psycopg.connect(server.dsn(), autocommit=True) as admin:
        for name in names:
            admin.execute(f"drop database {name} with (force)")


def test_key_goes_to_the_same_shard_whatever_the_order_of_the_list() -> None:
    assert moved_keys(named("a", "b", "c"), named("c", "a", "b")) == []


def test_keys_spread_evenly() -> None:
    shards = named("a", "b", "c", "d")
    sizes = Counter(shards.shard_of(key).name for key in KEYS)
    assert all(400 < size < 600 for size in sizes.values())


def test_new_shard_takes_only_its_share() -> None:
    before, after = named("a", "b", "c"), named("a", "b", "c", "d")
    moved = moved_keys(before, after)
    assert {after.shard_of(key).name for key in moved} == {"d"}
    assert 400 < len(moved) < 600


def test_placement_is_fixed_for_ever() -> None:
    """These may never change: events of a key would be split over two shards by an upgrade."""
    shards = named("a", "b", "c")
    assert "".join(shards.shard_of(key).name for key in KEYS[:20]) == "bcbabcababcbbcbcaacc"


def test_events_without_a_key_skip_an_unreachable_shard(three: list[Target]) -> None:
    down = Target("down", f"postgresql://postgres@127.0.0.1:{free_port()}/x")
    shards = Shards([*three, down])
    for n in range(12):
        with shards.connect(None) as conn:
            publish(conn, n)
    sizes = []
    for target in three:
        with connect(target) as conn:
            drain(conn)
            sizes.append(len(numbers(conn)))
    assert sum(sizes) == 12
    assert min(sizes) >= 3


def test_event_for_an_unreachable_shard_is_rejected_with_its_name(three: list[Target]) -> None:
    down = Target("down", f"postgresql://postgres@127.0.0.1:{free_port()}/x")
    shards = Shards([*three, down])
    key = next(key for key in KEYS if shards.shard_of(key) is down)
    with pytest.raises(ShardUnavailable, match=r"cannot reach database down .*the other shards go on"), shards.connect(key):
        pass


@pytest.mark.lane("pg18")
async def test_consumers_run_on_all_reachable_shards(three: list[Target]) -> None:
    shards = Shards(three)
    for n, key in enumerate(KEYS[:60]):
        with shards.connect(key) as conn:
            publish(conn, n, key=key)
    payloads: list[object] = []
    all_handled = asyncio.Event()
    app = Headrace()

    @app.consumer("orders")
    async def note(event: LoggedEvent, tx: AsyncConnection) -> None:
        payloads.append(event.payload)
        if len(payloads) == 60:
            all_handled.set()

    down = Target("down", f"postgresql://postgres@127.0.0.1:{free_port()}/x")
    node = Node(app, [*three, down], grace_s=0.5)
    running = asyncio.create_task(node.run())
    async with asyncio.timeout(30):
        await all_handled.wait()
    node.stop()
    await asyncio.gather(running, return_exceptions=True)
    assert sorted(payloads) == list(range(60))  # type: ignore[type-var]


def test_adding_a_shard_keeps_every_keys_order_when_the_old_ones_are_drained_first(three: list[Target]) -> None:
    """The procedure of docs/shards.md: publishers pause, consumers drain, the list gets longer, publishers go on."""
    first, second = Shards(three[:2]), Shards(three)
    order: dict[str, list[int]] = defaultdict(list)
    with ExitStack() as stack:
        conns = {target.name: stack.enter_context(connect(target)) for target in three}

        def consume_all() -> None:
            for conn in conns.values():
                drain(conn)
                for key, n in conn.execute("select key, payload::int from headrace.log order by position").fetchall():
                    if n not in order[key]:
                        order[key].append(n)

        for n in range(300):
            key = KEYS[n % 30]
            if n == 150:
                consume_all()
            publish(conns[(first if n < 150 else second).shard_of(key).name], n, key=key)
        consume_all()
    assert all(numbers_of == sorted(numbers_of) for numbers_of in order.values())
    assert sum(map(len, order.values())) == 300
