"""Laws of delivery that hold for every broker: what arrives is what was delivered, whatever is killed or cut in between."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace

import pytest

from headrace.core import JSON
from headrace.db import Connection, Target
from headrace.relays.targets import open_target
from headrace.relays.targets.target import DeliveryError, Message
from tests.relays.targets.brokers import Broker
from tests.relays.targets.builders import (
    RELAY,
    Stored,
    build_message,
    build_messages,
    deliver_all,
    first_occurrences,
    positions_by_key,
)
from tests.relays.targets.node_laws import run_relay_with_kills
from tests.relays.targets.proxy import proxy_to
from tests.relays.targets.servers import PASSWORD, DeliveringProcess


def check_content(broker: Broker, stored: Sequence[Stored], messages: Sequence[Message], *, repeats_max: int) -> None:
    """Exactly once: the messages in their order. At least once: all of them, in order per key, with a limited number of repeats."""
    if broker.exactly_once:
        assert [(entry.position, entry.event_id) for entry in stored] == [(m.position, str(m.event_id)) for m in messages]
        return
    unique = first_occurrences(stored)
    assert {(entry.position, entry.event_id) for entry in unique} == {(m.position, str(m.event_id)) for m in messages}
    assert positions_by_key(unique) == positions_by_key(messages)
    assert len(stored) - len(unique) <= repeats_max


class DeliveryLaws:
    """A test class of a broker inherits these and has a fixture `broker`."""

    restarts: tuple[int, ...] = (5, 20)
    """The server is killed after these batches."""
    process_messages = 1500
    """How many messages a process delivers that is killed on the way."""

    async def test_messages_arrive_in_order_with_key_body_and_headers(self, broker: Broker) -> None:
        topic = await broker.prepare()
        messages = build_messages(topic, 1, 60)
        target = broker.target()
        await target.open()
        await target.deliver(messages[:25])
        await target.deliver(messages[25:])
        await target.close()
        stored = await broker.read(topic)
        check_content(broker, stored, messages, repeats_max=0)
        by_position = {entry.position: entry for entry in stored}
        for message in messages:
            entry = by_position[message.position]
            assert (entry.key, entry.body) == (message.key, message.body)
            assert message.headers.items() <= entry.headers.items()
            assert entry.headers["content-type"] == "application/json"

    async def test_partitions_are_delivered_at_the_same_time(self, broker: Broker) -> None:
        topic = await broker.prepare()
        batches = [build_messages(topic, 1, 80, partition=partition) for partition in range(2)]
        target = broker.target()
        await asyncio.gather(*(deliver_all(target, messages, batch=10) for messages in batches))
        await target.close()
        for partition, messages in enumerate(batches):
            check_content(broker, await broker.read(topic, partition), messages, repeats_max=0)

    async def test_delivered_again_by_the_next_process(self, broker: Broker) -> None:
        topic = await broker.prepare()
        messages = build_messages(topic, 1, 30)
        for first, last in ((0, 20), (10, 30), (0, 30)):
            target = broker.target()
            await target.open()
            await target.deliver(messages[first:last])
            await target.close()
        check_content(broker, await broker.read(topic), messages, repeats_max=40)

    async def test_two_processes_deliver_the_same_events_at_once(self, broker: Broker) -> None:
        """A node that was taken for dead goes on beside its successor."""
        topic = await broker.prepare()
        messages = build_messages(topic, 1, 120)
        targets = [broker.target(), broker.target()]
        await asyncio.gather(
            *(deliver_all(target, messages, batch=batch) for target, batch in zip(targets, (10, 15), strict=True))
        )
        for target in targets:
            await target.close()
        stored = await broker.read(topic)
        if broker.exactly_once:
            check_content(broker, stored, messages, repeats_max=0)
        else:
            assert {entry.position for entry in stored} == {message.position for message in messages}

    async def test_server_killed_and_restarted_between_and_within_batches(self, broker: Broker) -> None:
        topic = await broker.prepare()
        messages = build_messages(topic, 1, 600)
        kills: list[asyncio.Task[None]] = []

        def restart() -> None:
            broker.server.kill()
            broker.server.start()

        def after_batch(number: int) -> None:
            if number in self.restarts:
                kills.append(asyncio.create_task(asyncio.to_thread(restart)))

        target = broker.target()
        failures = await deliver_all(target, messages, batch=20, after_batch=after_batch)
        await asyncio.gather(*kills)
        await target.close()
        assert failures > 0
        check_content(broker, await broker.read(topic), messages, repeats_max=20 * failures)

    async def test_connection_cut_while_events_are_on_their_way(self, broker: Broker) -> None:
        topic = await broker.prepare()
        messages = build_messages(topic, 1, 600)
        with proxy_to(broker.port) as proxy:
            target = broker.target(proxy.port)
            cuts: list[asyncio.Task[None]] = []

            def after_batch(number: int) -> None:
                if number % 4 == 0:
                    cuts.append(asyncio.create_task(asyncio.to_thread(proxy.cut)))

            failures = await deliver_all(target, messages, batch=30, after_batch=after_batch)
            await asyncio.gather(*cuts)
            await target.close()
        assert failures > 0
        check_content(broker, await broker.read(topic), messages, repeats_max=30 * failures)

    async def test_confirmed_by_the_server_but_the_answer_is_lost(self, broker: Broker) -> None:
        topic = await broker.prepare()
        messages = build_messages(topic, 1, 60)
        with proxy_to(broker.port) as proxy:
            target = broker.target(proxy.port, timeout_s=30)
            await target.deliver(messages[:20])
            proxy.loses_answers = True
            delivery = asyncio.create_task(target.deliver(messages[20:40]))
            async with asyncio.timeout(20):
                while not await self.has_stored_more(broker, topic, 20):
                    await asyncio.sleep(0.05)
            proxy.cut()
            proxy.loses_answers = False
            with pytest.raises(DeliveryError):
                await delivery
            await deliver_all(target, messages[20:], batch=20)
            await target.close()
        check_content(broker, await broker.read(topic), messages, repeats_max=20)

    async def has_stored_more(self, broker: Broker, topic: str, count: int) -> bool:
        return len(await broker.read(topic)) > count

    async def test_delivering_process_killed(self, broker: Broker) -> None:
        topic, last, batch = await broker.prepare(), self.process_messages, 25
        messages = build_messages(topic, 1, last)
        cursor, killed = 0, 0
        while True:
            work = {"topic": topic, "first": cursor // 3 + 1, "last": last, "batch": batch}
            process = DeliveringProcess(broker.kind, broker.options(), broker.secrets, work)
            reported = 0
            while (position := await process.confirmed()) is not None:
                reported += 1
                # The cursor is one batch behind: the last confirmed batch is delivered again, as if its commit had failed.
                if killed < 2 and reported > 3 * (killed + 1):
                    process.kill()
                    killed += 1
                    break
                cursor = position
            else:
                process.kill()
                break
        assert killed == 2 and cursor == messages[-1].position
        check_content(broker, await broker.read(topic), messages, repeats_max=2 * last)

    @pytest.mark.lane("pg18")
    async def test_node_killed_while_it_relays_a_log(
        self, broker: Broker, conn: Connection, database: Target, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await run_relay_with_kills(broker, conn, database, monkeypatch)

    async def test_redriven_dead_letter_arrives_after_later_events(self, broker: Broker) -> None:
        topic = await broker.prepare()
        messages = build_messages(topic, 1, 10)
        target = broker.target()
        await target.deliver([*messages[:4], *messages[5:]])
        await target.deliver([replace(messages[4], is_redriven=True)])
        more = build_messages(topic, 11, 15)
        await target.deliver(more[:2])
        await target.close()
        target = broker.target()
        await target.deliver(more)
        await target.close()
        expected = [message.position for message in (*messages[:4], *messages[5:], messages[4], *more)]
        stored = await broker.read(topic)
        if broker.exactly_once:
            assert [entry.position for entry in stored] == expected
        else:
            assert {entry.position for entry in stored} == set(expected)

    @pytest.mark.timeout(60)
    async def test_tls_checks_server_and_client(self, broker: Broker) -> None:
        """The server wants a certificate of its clients, and the target one of the server."""
        topic = await broker.prepare()
        references: dict[str, JSON] = {"tls": True, "tls_ca": "file:a", "tls_certificate": "file:c", "tls_key": "file:k"}
        secrets = broker.secrets | broker.server.certificates.client_secrets
        target = open_target(broker.kind, RELAY, broker.options(broker.tls_port, **references), secrets)
        await target.deliver(build_messages(topic, 1, 3))
        await target.close()
        assert len(await broker.read(topic)) == 3
        for left_out in ("tls_ca", "tls_certificate"):
            fewer = {name: value for name, value in secrets.items() if name != left_out}
            target = open_target(broker.kind, RELAY, broker.options(broker.tls_port, **references), fewer)
            with pytest.raises(DeliveryError):
                await target.deliver(build_messages(topic, 4, 4))
            await target.close()
        assert len(await broker.read(topic)) == 3

    async def test_wrong_secret_is_in_no_error_log_or_repr(self, broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.DEBUG)
        topic = await broker.prepare()
        caplog.clear()
        wrong = f"{PASSWORD}-wrong"
        bad = open_target(broker.kind, RELAY, broker.options(), {"password": wrong})
        with pytest.raises(DeliveryError) as caught:
            await bad.open()
        await bad.close()
        good = broker.target()
        await good.deliver([build_message(topic, 1)])
        texts = [
            repr(bad),
            repr(good),
            str(caught.value),
            repr(caught.value),
            *(record.getMessage() for record in caplog.records),
        ]
        await good.close()
        assert not [text for text in texts if PASSWORD in text or wrong in text]
