"""Redis Streams: exactly once by explicit ids."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.relays.targets.target import DeliveryError
from tests.relays.targets.brokers import RedisBroker
from tests.relays.targets.builders import build_messages, deliver_all
from tests.relays.targets.laws import DeliveryLaws


class TestRedis(DeliveryLaws):
    @pytest.fixture
    def broker(self, redis_broker: RedisBroker) -> RedisBroker:
        return redis_broker

    async def test_other_writer_is_refused(self, broker: RedisBroker) -> None:
        topic = await broker.prepare()
        messages = build_messages(topic, 1, 10)
        target = broker.target()
        await target.deliver(messages[:5])
        async with broker.connect() as client:
            await client.xadd(f"{topic}.0", {"body": "foreign"})
        with pytest.raises(DeliveryError, match="was not written by relay 'to-broker'"):
            await target.deliver(messages[5:])
        await target.close()
        assert len(await self.raw(broker, topic)) == 6

    async def test_entry_of_another_event_in_our_place_is_refused(self, broker: RedisBroker) -> None:
        """A restored database gives positions again: its events must not be taken for those that are there."""
        topic = await broker.prepare()
        target = broker.target()
        await target.deliver(build_messages(topic, 1, 10))
        await target.close()
        again = broker.target()
        with pytest.raises(DeliveryError, match="was not written by relay"):
            await again.deliver([replace(message, topic=topic) for message in build_messages("another", 5, 8)])
        await again.close()

    async def test_trimmed_stream_still_drops_repeats(self, broker: RedisBroker) -> None:
        topic = await broker.prepare()
        messages = build_messages(topic, 1, 20)
        target = broker.target(maxlen=1000)
        await target.deliver(messages)
        async with broker.connect() as client:
            await client.xtrim(f"{topic}.0", maxlen=0)
        await target.close()
        target = broker.target(maxlen=1000)
        await target.deliver(messages)
        await target.close()
        assert await self.raw(broker, topic) == []

    async def test_lack_of_memory_loses_nothing(self, broker: RedisBroker) -> None:
        topic = await broker.prepare()
        messages = build_messages(topic, 1, 40)
        target = broker.target()
        await target.deliver(messages[:10])
        async with broker.connect() as client:
            await client.config_set("maxmemory", 1)
            try:
                with pytest.raises(DeliveryError, match="not allowed when used memory") as caught:
                    await target.deliver(messages[10:])
            finally:
                await client.config_set("maxmemory", 0)
        assert "number" not in str(caught.value), "an error shows no event"
        await deliver_all(target, messages[10:])
        await target.close()
        assert [entry.position for entry in await broker.read(topic)] == [message.position for message in messages]

    async def test_key_of_another_type_is_a_clear_error(self, broker: RedisBroker) -> None:
        topic = await broker.prepare()
        async with broker.connect() as client:
            await client.set(f"{topic}.0", "text")
        target = broker.target()
        with pytest.raises(DeliveryError, match="WRONGTYPE"):
            await target.deliver(build_messages(topic, 1, 2))
        await target.close()

    async def raw(self, broker: RedisBroker, topic: str) -> list[object]:
        async with broker.connect() as client:
            return list(await client.xrange(f"{topic}.0"))
