"""RabbitMQ streams: exactly once by publishing ids."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.relays.targets.target import DeliveryError, TargetRefused
from tests.relays.targets.brokers import RabbitMQStreamBroker
from tests.relays.targets.builders import build_messages
from tests.relays.targets.laws import DeliveryLaws, check_content
from tests.relays.targets.servers import RabbitMQServer


class TestRabbitMQStream(DeliveryLaws):
    @pytest.fixture
    def broker(self, rabbitmq_server: RabbitMQServer) -> RabbitMQStreamBroker:
        return RabbitMQStreamBroker(rabbitmq_server)

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
