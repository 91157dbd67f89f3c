"""GET /topics/{topic}/events: pages, long polls, event streams."""

from __future__ import annotations

import asyncio
import http.client
import json
import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from headrace.db import Connection, Server, connect
from headrace.log.outbox import publish
from headrace.web.http import IngestSettings, reading, revoke_access_token
from headrace.web.http.reading import EventPage, EventQuery, LogReader
from tests.builders import drain, wait_until
from tests.web.http.conftest import LOOPBACK, Client, RunningServer, run_server

ACTIVE = (
    "select count(*) from pg_stat_activity where datname = current_database() and state = 'active' and pid <> pg_backend_pid()"
)


def fill(conn: Connection, topic: str, *types: str, key: str | None = None) -> None:
    with conn.transaction():
        for type in types:
            publish(conn, topic, type, {"type": type}, key=key)
    drain(conn)


def test_page_by_page_every_event_comes_once(http_server: RunningServer, topic: str) -> None:
    fill(http_server.conn, topic, *[f"t{n}" for n in range(25)])
    client, after, seen = http_server.client("read"), 0, []
    for _ in range(3):
        page = client.get(f"/topics/{topic}/events?after={after}&limit=10")
        assert page.headers["headrace-next"] == str(page.json["next"])
        seen += page.json["events"]
        after = page.json["next"]
    assert [event["position"] for event in seen] == list(range(1, 26)) and after == 25
    assert client.get(f"/topics/{topic}/events?after=25").json == {"events": [], "next": 25}
    assert set(seen[0]) == {
        "position",
        "partition",
        "id",
        "type",
        "key",
        "payload",
        "headers",
        "emitted_at",
        "appended_at",
        "producer",
    }
    assert client.get(f"/topics/{topic}/events?after=latest").json == {"events": [], "next": 25}


def test_filters_pass_what_does_not_fit(http_server: RunningServer, topic: str) -> None:
    fill(http_server.conn, topic, "a.x", "b", "a_x", "a.y", key="k")
    fill(http_server.conn, topic, "a.x")
    client = http_server.client("read")

    def types(query: str, client: Client = client) -> tuple[list[str], int]:
        page = client.get(f"/topics/{topic}/events?{query}").json
        return [event["type"] for event in page["events"]], page["next"]

    assert types("types=a.*") == (["a.x", "a.y", "a.x"], 5)
    assert types("types=a_x,b") == (["b", "a_x"], 5)
    assert types("types=a.*&key=k") == (["a.x", "a.y"], 5)
    assert types("types=none") == ([], 5)
    assert types("types=a.*&limit=1") == (["a.x"], 1)
    limited = http_server.client("read", event_types=["b"])
    assert types("", limited) == (["b"], 5)
    assert types("types=a.*", limited) == ([], 5)


def test_large_events_come_in_several_pages(http_server: RunningServer, topic: str) -> None:
    """By bytes, so that one answer cannot fill the memory of the server; no event is skipped."""
    with http_server.conn.transaction():
        for n in range(6):
            # Random digits: the stored size is not much smaller.
            publish(http_server.conn, topic, "wide", random.Random(n).randbytes(150_000).hex())
    drain(http_server.conn)
    client, after, sizes = http_server.client("read"), 0, []
    while after < 6:
        page = client.get(f"/topics/{topic}/events?after={after}").json
        sizes.append(len(page["events"]))
        assert [event["position"] for event in page["events"]] == list(range(after + 1, page["next"] + 1))
        after = page["next"]
    assert sum(sizes) == 6 and 1 < len(sizes) < 6


def test_cloudevents_on_request(http_server: RunningServer, topic: str) -> None:
    fill(http_server.conn, topic, "a")
    answer = http_server.client("read").get(f"/topics/{topic}/events", accept="application/cloudevents-batch+json")
    (event,) = answer.json
    assert (event["specversion"], event["type"], event["data"]) == ("1.0", "a", {"type": "a"})
    assert answer.headers["headrace-next"] == "1"


@pytest.mark.parametrize(
    ("query", "status"),
    [("after=-1", 400), ("after=x", 400), ("limit=0", 400), ("limit=1001", 400), ("wait_s=61", 400), ("wait_s=nan", 400), ("x=1", 400),
     ("after=99", 422), ("shard=west", 422)],
)  # fmt: skip
def test_bad_parameters(http_server: RunningServer, query: str, status: int) -> None:
    fill(http_server.conn, "orders", "a")
    answer = http_server.client("read").get(f"/topics/orders/events?{query}")
    assert answer.status == status and answer.error, answer.body


def test_dropped_positions_are_410(http_server: RunningServer, topic: str) -> None:
    fill(http_server.conn, topic, *"abcdef")
    # As retention does.
    http_server.conn.execute(
        "delete from headrace_internal.log where position <= 4 and topic_id = headrace.topic_id(%s)", (topic,)
    )
    http_server.conn.execute("update headrace_internal.topic set dropped_to = 4 where topic_id = headrace.topic_id(%s)", (topic,))
    client = http_server.client("read")
    answer = client.get(f"/topics/{topic}/events?after=2")
    assert answer.status == 410 and "after=4" in answer.json["detail"]
    for start in ("4", "earliest", "0"):
        assert [e["type"] for e in client.get(f"/topics/{topic}/events?after={start}").json["events"]] == ["e", "f"]


def test_unknown_topic_is_404(http_server: RunningServer) -> None:
    assert http_server.client("read").get("/topics/nothing/events").error == "UnknownTopic"


def test_long_poll_ends_with_the_event_and_asks_the_database_once(http_server: RunningServer, topic: str) -> None:
    """Thirty readers wait; nothing is asked while they do, and the event is read once for all of them."""
    readers = 30
    clients = [http_server.client("read") for _ in range(readers)]
    with ThreadPoolExecutor(readers) as pool:
        # From the start: a reader that comes late must not wait for a second event.
        answers = [pool.submit(client.get, f"/topics/{topic}/events?after=0&wait_s=30") for client in clients]
        wait_until(lambda: http_server.conn.execute(ACTIVE).fetchone() == (0,), "the end of the first reads")
        assert not any(answer.done() for answer in answers)
        began = time.monotonic()
        fill(http_server.conn, topic, "late")
        pages = [answer.result(timeout=20).json for answer in answers]
    assert time.monotonic() - began < 10
    assert all([event["type"] for event in page["events"]] == ["late"] and page["next"] == 1 for page in pages)


def test_no_reader_misses_what_was_appended_while_its_first_read_was_under_way(
    http_server: RunningServer, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first reader of a topic: the notification comes after its query has read, and before the tail begins."""
    read, began, may_end = LogReader._read, threading.Event(), threading.Event()
    readers: list[LogReader] = []

    async def read_slowly(self: LogReader, wanted: EventQuery, topic_id: int) -> EventPage:
        page = await read(self, wanted, topic_id)
        readers.append(self)
        began.set()
        await asyncio.to_thread(may_end.wait, 20)
        return page

    monkeypatch.setattr(LogReader, "_read", read_slowly)
    # Only the notification can help: neither the poll nor the end of the wait.
    monkeypatch.setattr(reading, "LOOK_AGAIN_S", 60)
    client = http_server.client("read")
    with ThreadPoolExecutor(2) as pool:
        answer = pool.submit(client.get, f"/topics/{topic}/events?after=0&wait_s=40")
        assert began.wait(10)
        notifications = readers[0]._database.notifications
        before = notifications.count
        fill(http_server.conn, topic, "a")
        # Until then the second reader would share the first one's query.
        wait_until(lambda: notifications.count > before, "the notification of the event")
        other = http_server.client("read")
        began.clear()
        late = pool.submit(other.get, f"/topics/{topic}/events?after=0")
        assert began.wait(10)
        may_end.set()
        assert [event["type"] for event in late.result(timeout=20).json["events"]] == ["a"]
        assert [event["type"] for event in answer.result(timeout=20).json["events"]] == ["a"]


def test_no_reader_misses_what_was_appended_while_the_tail_was_read(
    http_server: RunningServer, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers share queries: whoever is woken by an event must not get the answer of a query that began before it."""
    read, began, may_end = LogReader._read, threading.Event(), threading.Event()

    async def read_slowly(self: LogReader, wanted: EventQuery, topic_id: int) -> EventPage:
        page = await read(self, wanted, topic_id)
        began.set()
        await asyncio.to_thread(may_end.wait, 20)
        return page

    first, second = http_server.client("read"), http_server.client("read")
    with ThreadPoolExecutor(2) as pool:
        stream = Stream(first, f"/topics/{topic}/events")
        monkeypatch.setattr(LogReader, "_read", read_slowly)
        fill(http_server.conn, topic, "a")
        assert began.wait(10)
        # The query for the first event has seen the log without the second, and has not been answered yet.
        fill(http_server.conn, topic, "b")
        late = pool.submit(second.get, f"/topics/{topic}/events?after=1&wait_s=20")
        may_end.set()
        events = iter(stream)
        assert [next(events)["type"], next(events)["type"]] == ["a", "b"]
        assert [event["type"] for event in late.result(timeout=30).json["events"]] == ["b"]
        stream.close()


def test_streams_of_a_topic_read_what_is_new_once_whatever_they_filter(
    http_server: RunningServer, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, reads = LogReader._read, []

    async def count_read(self: LogReader, wanted: EventQuery, topic_id: int) -> EventPage:
        reads.append(wanted)
        return await read(self, wanted, topic_id)

    client, filters = http_server.client("read"), ["", "types=a", "types=a,b", "types=b*,a*", "limit=1", "limit=2", "key=k"]
    streams = [Stream(client, f"/topics/{topic}/events?{text}") for text in filters]
    events = [iter(stream) for stream in streams]
    publish(http_server.conn, topic, "a", 1, key="k")
    drain(http_server.conn)
    assert [next(each)["position"] for each in events] == [1] * len(filters)
    monkeypatch.setattr(LogReader, "_read", count_read)
    for position in (2, 3):
        publish(http_server.conn, topic, "a", position, key="k")
        drain(http_server.conn)
        assert [next(each)["position"] for each in events] == [position] * len(filters)
    assert len(reads) == 2
    for stream in streams:
        stream.close()


def test_long_poll_ends_without_an_event(http_server: RunningServer, topic: str) -> None:
    began = time.monotonic()
    assert http_server.client("read").get(f"/topics/{topic}/events?wait_s=0.4").json == {"events": [], "next": 0}
    assert time.monotonic() - began >= 0.4


class Stream:
    """A client of server-sent events."""

    def __init__(self, client: Client, path: str, **headers: str) -> None:
        self.conn = http.client.HTTPConnection("127.0.0.1", client.port, timeout=30)
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        self.conn.request(
            "GET", path, headers={"authorization": f"Bearer {client.token}", "accept": "text/event-stream", **names}
        )
        self.response = self.conn.getresponse()
        self.last_id = ""

    def __iter__(self) -> Iterator[dict[str, object]]:
        fields: dict[str, str] = {}
        while line := self.response.readline().decode():
            if line == "\n":
                if "data" in fields:
                    yield {"name": fields.get("event", "message"), **json.loads(fields["data"])}
                fields = {}
                continue
            name, _, value = line.rstrip("\n").partition(": ")
            fields[name] = value
            if name == "id":
                self.last_id = value

    def close(self) -> None:
        # The response holds the socket, too.
        self.response.close()
        self.conn.close()


def test_stream_goes_on_where_the_client_left(http_server: RunningServer, topic: str) -> None:
    client = http_server.client("read")
    fill(http_server.conn, topic, "a", "b")
    stream = Stream(client, f"/topics/{topic}/events")
    assert (stream.response.status, stream.response.getheader("content-type")) == (200, "text/event-stream; charset=utf-8")
    events = iter(stream)
    assert [next(events)["type"], next(events)["type"], stream.last_id] == ["a", "b", "2"]
    threading.Timer(0.2, fill, (http_server.conn, topic, "c")).start()
    assert (next(events)["type"], stream.last_id) == ("c", "3")
    stream.close()
    fill(http_server.conn, topic, "d")
    again = Stream(client, f"/topics/{topic}/events?after=1", last_event_id="3")
    assert next(iter(again))["type"] == "d"
    again.close()


def test_stream_ends_with_its_token(http_server: RunningServer, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.web.http.reading.HEARTBEAT_S", 0.2)
    client = http_server.client("read", name="streaming")
    stream = Stream(client, f"/topics/{topic}/events")
    revoke_access_token(http_server.conn, "streaming")
    (last,) = list(stream)
    assert (last["name"], last["status"]) == ("problem", 401)
    stream.close()


def test_readers_beyond_the_places_of_their_token_are_429_and_those_who_left_do_not_count(server: Server) -> None:
    settings = IngestSettings(address=LOOPBACK, readers_per_token_max=2, readers_max=3)
    with run_server(server, settings) as http_server:
        client, other, third = (http_server.client("read") for _ in range(3))
        path = "/topics/orders/events"
        streams = [Stream(client, path) for _ in range(2)]
        refused = client.get(path)
        assert (refused.status, refused.headers["retry-after"]) == (429, "1")
        assert "2 long polls and event streams" in refused.json["detail"]
        streams.append(Stream(other, path))
        assert streams[-1].response.status == 200, "another token has its own places"
        assert third.get(path).status == 503, "all places are taken"
        for stream in streams:
            stream.close()
        wait_until(lambda: client.get(path).status == 200, "free places")


def test_readers_that_hang_keep_no_connection_from_publishers(server: Server) -> None:
    with run_server(server) as http_server, connect(http_server.database) as blocker, ThreadPoolExecutor(8) as pool:
        # Reading the head of a log now waits for a lock that the test holds.
        http_server.conn.execute("alter function headrace.log_head rename to real_log_head")
        http_server.conn.execute(
            """create function headrace.log_head(p_topic_id integer) returns table ("position" bigint, appended_at timestamptz)
               language plpgsql as $$ begin perform pg_advisory_lock_shared(26), pg_advisory_unlock_shared(26);
               return query select * from headrace.real_log_head(p_topic_id); end $$"""
        )
        client = http_server.client()
        blocker.execute("select pg_advisory_lock(26)")
        answers = [pool.submit(http_server.client("read").get, f"/topics/orders/events?limit={n}") for n in range(1, 8)]
        waiting = "select count(*) from pg_stat_activity where wait_event = 'advisory' and datname = current_database()"
        wait_until(lambda: http_server.conn.execute(waiting).fetchone()[0] >= 2, "readers that hang")  # type: ignore[index]
        assert client.post("/topics/orders/events?type=a", {}).status == 201
        blocker.execute("select pg_advisory_unlock(26)")
        # A reader that waited for the lock too long gets 503.
        assert {answer.result(30).status for answer in answers} <= {200, 503}


def test_stream_of_an_unknown_topic_or_position_is_a_problem(http_server: RunningServer) -> None:
    client = http_server.client("read")
    assert client.get("/topics/nothing/events", accept="text/event-stream").status == 404
    fill(http_server.conn, "orders", "a")
    assert client.get("/topics/orders/events?after=999", accept="text/event-stream").status == 422
