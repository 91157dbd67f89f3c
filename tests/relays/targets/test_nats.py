"""NATS JetStream: exactly once by the expected last sequence of a subject."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import replace

import pytest
from nats.js.api import DiscardPolicy, RetentionPolicy, StreamConfig

from headrace.db import Connection, Target
from headrace.relays.targets.target import DeliveryError, TargetRefused
from tests.relays.targets.brokers import Broker, NatsBroker
from tests.relays.targets.builders import build_message, build_messages, deliver_all, with_headers
from tests.relays.targets.laws import DeliveryLaws, check_content
from tests.relays.targets.servers import NatsServer


class TestNats(DeliveryLaws):
    """On a stream without atomic batches, and on one with them."""

    @pytest.fixture(params=[False, True], ids=["single", "atomic"])
    def broker(self, nats_server: NatsServer, request: pytest.FixtureRequest) -> NatsBroker:
        return NatsBroker(nats_server, is_atomic=request.param)

    @pytest.mark.parametrize("broker", [False], ids=["single"], indirect=True)
    async def test_delivering_process_killed(self, broker: Broker) -> None:
        """The kill of a node, below, has the atomic batches."""
        await super().test_delivering_process_killed(broker)

    @pytest.mark.parametrize("broker", [True], ids=["atomic"], indirect=True)
    @pytest.mark.lane("pg18")
    async def test_node_killed_while_it_relays_a_log(
        self, broker: Broker, conn: Connection, database: Target, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await super().test_node_killed_while_it_relays_a_log(broker, conn, database, monkeypatch)

    @pytest.mark.parametrize("broker", [True], ids=["atomic"], indirect=True)
    @pytest.mark.timeout(60)
    async def test_tls_checks_server_and_client(self, broker: Broker) -> None:
        server = NatsServer(tls=True)
        server.start()
        try:
            context = ssl.create_default_context(cafile=server.certificates.path("ca.pem"))
            context.load_cert_chain(server.certificates.path("client.pem"), server.certificates.path("client.key"))
            secured = NatsBroker(server, is_atomic=True, context=context)
            await super().test_tls_checks_server_and_client(secured)
        finally:
            server.stop()

    async def test_other_writer_on_the_subject_is_refused(self, broker: NatsBroker) -> None:
        topic = await broker.prepare()
        messages = build_messages(topic, 1, 10)
        target = broker.target()
        await target.deliver(messages[:5])
        client = await broker.connect()
        await client.jetstream().publish(f"{broker.stream}.{topic}.0", b"foreign")
        with pytest.raises(DeliveryError, match="was not written by relay 'to-broker'"):
            await target.deliver(messages[5:])
        await client.close()
        await target.close()

    async def test_other_writers_on_the_stream_cost_time_and_nothing_else(self, broker: NatsBroker) -> None:
        topic = await broker.prepare()
        messages = build_messages(topic, 1, 400)
        client = await broker.connect()
        done = asyncio.Event()

        async def disturb() -> None:
            while not done.is_set():
                await client.jetstream().publish(f"{broker.stream}.other", b"x")

        disturber = asyncio.create_task(disturb())
        target = broker.target()
        failures = await deliver_all(target, messages, batch=50)
        done.set()
        await disturber
        await target.close()
        await client.close()
        assert failures == 0
        check_content(broker, await broker.read(topic), messages, repeats_max=0)

    async def test_headers_of_an_event_cannot_command_the_server(self, broker: NatsBroker) -> None:
        topic = await broker.prepare()
        client = await broker.connect()
        await client.jetstream().add_stream(StreamConfig("ROLLUP", subjects=["rollup.*"], allow_rollup_hdrs=True))
        commands = {"Nats-Rollup": "all", "nats-expected-last-sequence": "77", "Nats-Msg-Id": "same", "Headrace-Position": "999"}
        messages = [with_headers(message, **commands) for message in build_messages(topic, 1, 5)]
        target = broker.target(stream="ROLLUP", subject="rollup.{partition}")
        await target.deliver(messages)
        await target.deliver(build_messages(topic, 6, 6))
        await target.close()
        state = (await client.jetstream().stream_info("ROLLUP")).state
        await client.jetstream().delete_stream("ROLLUP")
        await client.close()
        assert state.messages == 6

    async def test_header_text_passes_unchanged(self, broker: NatsBroker) -> None:
        topic = await broker.prepare()
        message = with_headers(build_message(topic, 1), plain="a: b, c=%41", lines="a\r\nNats-Rollup: all", name="Größe ")
        target = broker.target()
        await target.deliver([message])
        await target.close()
        [stored] = await broker.read(topic)
        assert stored.headers["plain"] == "a: b, c=%41"
        assert stored.headers["lines"] == "a%0D%0ANats-Rollup%3A%20all"
        assert stored.headers["name"] == "Gr%C3%B6%C3%9Fe%20"

    async def test_message_that_is_too_large_is_refused_after_those_before_it(self, broker: NatsBroker) -> None:
        topic = await broker.prepare()
        messages = build_messages(topic, 1, 6)
        messages[3] = replace(messages[3], body=b"x" * 1024 * 1024)
        target = broker.target()
        with pytest.raises(TargetRefused, match=f"position {messages[3].position} has 1049"):
            await target.deliver(messages)
        assert [entry.position for entry in await broker.read(topic)] == [message.position for message in messages[:3]]
        await target.deliver(messages[4:])
        await target.close()
        assert [entry.position for entry in await broker.read(topic)] == [m.position for m in messages if m is not messages[3]]

    async def test_full_stream_stores_nothing_out_of_order(self, broker: NatsBroker) -> None:
        topic = await broker.prepare()
        client = await broker.connect()
        is_atomic = broker.stream == "ATOMIC"
        config = StreamConfig("SMALL", subjects=["small.*"], max_msgs=10, discard=DiscardPolicy.NEW, allow_atomic=is_atomic)
        await client.jetstream().add_stream(config)
        messages = build_messages(topic, 1, 30)
        target = broker.target(stream="SMALL", subject="small.{partition}")
        with pytest.raises(DeliveryError, match="maximum messages exceeded"):
            await target.deliver(messages)
        await client.jetstream().update_stream(replace(config, max_msgs=100))
        await target.deliver(messages)
        await target.close()
        state = (await client.jetstream().stream_info("SMALL")).state
        last = await client.jetstream().get_last_msg("SMALL", "small.0")
        await client.jetstream().delete_stream("SMALL")
        await client.close()
        assert state.messages == 30 and (last.headers or {})["headrace-position"] == str(messages[-1].position)

    async def test_missing_stream_and_wrong_retention_are_clear_errors(self, broker: NatsBroker) -> None:
        target = broker.target(stream="NONE")
        with pytest.raises(DeliveryError, match=r"'NONE' of NATS at .* does not exist; create the stream"):
            await target.open()
        client = await broker.connect()
        await client.jetstream().add_stream(StreamConfig("WORK", subjects=["work.*"], retention=RetentionPolicy.WORK_QUEUE))
        await client.close()
        target = broker.target(stream="WORK", subject="work.{partition}")
        with pytest.raises(DeliveryError, match="has the retention"):
            await target.open()

    async def test_subject_outside_the_stream_is_a_clear_error(self, broker: NatsBroker) -> None:
        topic = await broker.prepare()
        target = broker.target(subject="nowhere.{partition}")
        with pytest.raises(DeliveryError, match="does not take the subject of a message"):
            await target.deliver(build_messages(topic, 1, 2))
        await target.close()
