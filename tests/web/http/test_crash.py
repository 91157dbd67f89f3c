"""The server is killed with -9: nothing is answered for that was not committed, and nothing is committed twice under one key."""

from __future__ import annotations

import http.client
import random
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from headrace.db import Connection, Target, free_port
from headrace.web.http import create_access_token
from tests.builders import drain, start_python, topic
from tests.web.http.conftest import Answer, Client


@contextmanager
def running(database: Target, port: int, *, kill: bool = False) -> Iterator[subprocess.Popen[str]]:
    process = start_python("tests.web.http.processes", database.dsn, str(port), "kill" if kill else "live")
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def post_until_answered(client: Client, path: str, body: object, key: str, *, until: float) -> Answer:
    """A client that repeats its request, with the same key, until it is answered."""
    while True:
        with suppress(OSError, http.client.HTTPException):
            answer = client.post(path, body, idempotency_key=key)
            if answer.status != 503:
                return answer
        assert time.monotonic() < until, "no answer in time"
        time.sleep(0.02)


def test_killed_between_commit_and_answer_the_retry_finds_the_event(conn: Connection, database: Target) -> None:
    topic(conn)
    token, port = create_access_token(conn, "t", ["publish"]).token, free_port()
    client = Client(port, token)
    path = "/topics/orders/events?type=placed"
    until = time.monotonic() + 60
    with running(database, port, kill=True) as process:
        assert post_until_answered(client, path, {"n": 0}, "live", until=until).status == 201
        with pytest.raises((OSError, http.client.HTTPException)):
            client.post(path, {"n": 1}, idempotency_key="kill-1")
        assert process.wait(timeout=30) == -9
    drain(conn)
    (committed,) = conn.execute("select array_agg(event_id::text order by position) from headrace.log").fetchone()  # type: ignore[misc]
    assert len(committed) == 2, "it was killed after the commit"
    with running(database, port):
        answer = post_until_answered(client, path, {"n": 1}, "kill-1", until=until)
        assert (answer.status, answer.json["ids"]) == (201, committed[1:])
        assert answer.headers["idempotent-replayed"] == "true"
        assert post_until_answered(client, path, {"n": 2}, "kill-1", until=until).status == 422
    drain(conn)
    assert conn.execute("select count(*) from headrace.log").fetchone() == (2,)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_kills_under_load_lose_nothing_and_repeat_nothing(conn: Connection, database: Target) -> None:
    """Eight clients publish single events and batches, each with a key, while the server is killed ten times."""
    topic(conn)
    token, port = create_access_token(conn, "t", ["publish"]).token, free_port()
    until, stop = time.monotonic() + 240, threading.Event()
    answered: dict[str, list[str]] = {}
    failures: list[BaseException] = []

    def work(worker: int) -> None:
        client, chance, n = Client(port, token), random.Random(worker), 0
        try:
            while not stop.is_set():
                n += 1
                key = f"{worker}-{n}"
                if chance.random() < 0.5:
                    body: object = {"key": key}
                    path, kind = "/topics/orders/events?type=placed", "application/json"
                else:
                    path, kind = "/topics/orders/events", "application/cloudevents-batch+json"
                    body = [
                        {"specversion": "1.0", "id": f"{key}/{i}", "source": "/load", "type": "placed", "data": {"key": key}}
                        for i in range(5)
                    ]
                answer = send_until_answered(client, path, body, key, kind)
                assert answer.status == 201, answer.body
                answered[key] = answer.json["ids"]
        except Exception as error:  # noqa: BLE001 - shown by the test's own thread
            failures.append(error)

    def send_until_answered(client: Client, path: str, body: object, key: str, kind: str) -> Answer:
        while True:
            with suppress(OSError, http.client.HTTPException):
                answer = client.post(path, body, idempotency_key=key, content_type=kind)
                if answer.status != 503:
                    return answer
            assert time.monotonic() < until
            time.sleep(0.02)

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(8)]
    for thread in threads:
        thread.start()
    chance = random.Random(7)
    for _ in range(10):
        with running(database, port):
            reached, deadline = len(answered) + chance.randint(20, 200), time.monotonic() + 30
            while len(answered) < reached and time.monotonic() < deadline and not failures:
                time.sleep(0.001)
    with running(database, port):
        stop.set()
        for thread in threads:
            thread.join()
    assert not failures, failures[:1]
    drain(conn)
    rows = conn.execute("select event_id::text, payload ->> 'key' from headrace.log").fetchall()
    committed = Counter(id for id, _ in rows)
    assert max(committed.values()) == 1
    per_key = Counter(key for _, key in rows)
    assert {key: len(ids) for key, ids in answered.items()} == {key: per_key[key] for key in answered}
    assert all(id in committed for ids in answered.values() for id in ids), "answered for, and not committed"
    assert set(per_key) == set(answered), "every request was repeated until its answer came"
    assert len(answered) > 200
