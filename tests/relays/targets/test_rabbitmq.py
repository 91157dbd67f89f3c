"""RabbitMQ queues: at least once with confirms, in order per key. RabbitMQ streams: exactly once by publishing ids."""

from __future__ import annotations

from dataclasses import replace

import aio_pika
import pytest

from headrace.db import Connection, Target
from headrace.relays.targets.target import DeliveryError, TargetRefused
from tests.relays.targets.brokers import Broker, RabbitMQBroker, RabbitMQStreamBroker
from tests.relays.targets.builders import build_messages, deliver_all, first_occurrences, positions_by_key, with_headers
from tests.relays.targets.laws import DeliveryLaws, check_content
from tests.relays.targets.servers import RabbitMQServer

# An Erlang node takes its time to start and to confirm: `make test-relays`.
pytestmark = pytest.mark.slow


class TestRabbitMQ(DeliveryLaws):
    process_messages = 400

    @pytest.fixture
    def broker(self, rabbitmq_server: RabbitMQServer) -> RabbitMQBroker:
        return RabbitMQBroker(rabbitmq_server)

    @pytest.mark.slow
    @pytest.mark.timeout(300)
    async def test_server_killed_and_restarted_between_and_within_batches(self, broker: Broker) -> None:
        """Slow: an Erlang node takes its time to start."""
        await super().test_server_killed_and_restarted_between_and_within_batches(broker)

    async def test_message_that_no_queue_takes_is_a_clear_error(self, broker: RabbitMQBroker) -> None:
        topic = await broker.prepare()
        target = broker.target(routing_key="nowhere.{topic}")
        with pytest.raises(DeliveryError, match="has no queue for the routing key of a message; bind a queue"):
            await target.deliver(build_messages(topic, 1, 3))
        await target.close()

    async def test_missing_exchange_is_a_clear_error(self, broker: RabbitMQBroker) -> None:
        topic = await broker.prepare()
        target = broker.target(exchange="missing")
        with pytest.raises(DeliveryError, match="no exchange 'missing' in vhost"):
            await target.deliver(build_messages(topic, 1, 3))
        await target.close()

    async def test_full_queue_keeps_the_order_of_each_key(self, broker: RabbitMQBroker) -> None:
        """A queue that refuses an event, and takes a later one, must not swap them."""
        topic = await broker.prepare()
        name = f"{topic}.full"
        async with await broker.connect() as connection, connection.channel() as channel:
            limits = {"x-max-length": 7, "x-overflow": "reject-publish"}
            queue = await channel.declare_queue(name, durable=True, arguments=limits)
            messages = build_messages(topic, 1, 40)
            target = broker.target(routing_key="{topic}.full")
            with pytest.raises(DeliveryError, match="refused a message; its queue may be full") as caught:
                await target.deliver(messages)
            read = [await queue.get(no_ack=True) for _ in range(7)]
            assert caught.value.delivered == {int(str(message.headers["headrace-position"])) for message in read}
            positions: dict[str, list[int]] = {}
            for message in read:
                positions.setdefault(str(message.headers["headrace-key"]), []).append(
                    int(str(message.headers["headrace-position"]))
                )
            expected = positions_by_key(messages)
            assert all(expected[key][: len(some)] == some for key, some in positions.items())
            await target.close()

    async def test_headers_of_an_event_cannot_route_copies(self, broker: RabbitMQBroker) -> None:
        topic = await broker.prepare()
        target = broker.target()
        messages = [with_headers(message, CC=f"{topic}.1", BCC=f"{topic}.1") for message in build_messages(topic, 1, 3)]
        await target.deliver(messages)
        await target.close()
        assert len(await broker.read(topic)) == 3 and await broker.read(topic, 1) == []

    async def test_routing_key_that_is_too_long_is_refused_after_the_others(self, broker: RabbitMQBroker) -> None:
        topic = await broker.prepare()
        async with await broker.connect() as connection, connection.channel() as channel:
            exchange = await channel.declare_exchange(topic, aio_pika.ExchangeType.TOPIC, durable=True)
            await (await channel.get_queue(f"{topic}.0")).bind(exchange, "#")
        messages = build_messages(topic, 1, 4)
        messages[1] = replace(messages[1], key="k" * 300)
        target = broker.target(exchange=topic, routing_key="{type}.{key}")
        with pytest.raises(TargetRefused, match="routing key of 313 bytes, RabbitMQ takes 255") as caught:
            await target.deliver(messages)
        await target.close()
        delivered = {messages[index].position for index in (0, 2, 3)}
        assert caught.value.delivered == delivered == {entry.position for entry in await broker.read(topic)}

    async def test_events_without_a_key_arrive_all(self, broker: RabbitMQBroker) -> None:
        topic = await broker.prepare()
        messages = build_messages(topic, 1, 50, keys=0)
        target = broker.target()
        await deliver_all(target, messages)
        await target.close()
        stored = await broker.read(topic)
        assert {entry.position for entry in first_occurrences(stored)} == {message.position for message in messages}


class TestRabbitMQStream(DeliveryLaws):
    process_messages = 400

    @pytest.fixture
    def broker(self, rabbitmq_server: RabbitMQServer) -> RabbitMQStreamBroker:
        return RabbitMQStreamBroker(rabbitmq_server)

    @pytest.mark.slow
    @pytest.mark.timeout(300)
    async def test_server_killed_and_restarted_between_and_within_batches(self, broker: Broker) -> None:
        """Slow: an Erlang node takes its time to start."""
        await super().test_server_killed_and_restarted_between_and_within_batches(broker)

    @pytest.mark.slow
    @pytest.mark.lane("pg18")
    async def test_node_killed_while_it_relays_a_log(
        self, broker: Broker, conn: Connection, database: Target, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await super().test_node_killed_while_it_relays_a_log(broker, conn, database, monkeypatch)

    async def test_missing_stream_is_a_clear_error(self, broker: RabbitMQStreamBroker) -> None:
        target = broker.target()
        with pytest.raises(DeliveryError, match=r"has no stream 'nothing\.0'; create it"):
            await target.deliver(build_messages("nothing", 1, 3))
        await target.close()

    async def test_partitions_may_share_a_stream(self, broker: RabbitMQStreamBroker) -> None:
        topic = await broker.prepare()
        target = broker.target(stream="{topic}.0")
        for first, last in ((1, 10), (6, 20)):
            for partition in range(2):
                await target.deliver(build_messages(topic, first, last, partition=partition))
        await target.close()
        stored = await broker.read(topic)
        for partition in range(2):
            mine = [entry for entry in stored if entry.headers["headrace-partition"] == str(partition)]
            check_content(broker, mine, build_messages(topic, 1, 20, partition=partition), repeats_max=0)

    async def test_batch_of_many_frames_arrives(self, broker: RabbitMQStreamBroker) -> None:
        topic = await broker.prepare()
        messages = [replace(message, body=b"x" * 100_000) for message in build_messages(topic, 1, 40)]
        target = broker.target()
        await target.deliver(messages)
        await target.close()
        check_content(broker, await broker.read(topic), messages, repeats_max=0)

    async def test_message_that_is_too_large_is_refused_after_those_before_it(self, broker: RabbitMQStreamBroker) -> None:
        topic = await broker.prepare()
        messages = build_messages(topic, 1, 5)
        messages[2] = replace(messages[2], body=b"x" * 1024 * 1024)
        target = broker.target()
        with pytest.raises(TargetRefused, match=f"position {messages[2].position} has 10"):
            await target.deliver(messages)
        await target.deliver(messages[3:])
        await target.close()
        check_content(broker, await broker.read(topic), [m for m in messages if m is not messages[2]], repeats_max=0)
