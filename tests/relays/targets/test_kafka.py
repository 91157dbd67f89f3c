"""Kafka: at least once, in order per key, by an idempotent producer. On a mock cluster: it proves the wire, not Kafka's own promises."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from headrace.db import Connection, Target
from headrace.relays.targets.target import DeliveryError, TargetRefused
from tests.relays.targets.brokers import Broker, KafkaBroker
from tests.relays.targets.builders import build_messages, deliver_all
from tests.relays.targets.laws import DeliveryLaws, check_content


class TestKafka(DeliveryLaws):
    test_server_killed_and_restarted_between_and_within_batches = None  # type: ignore[assignment]
    """The mock cluster keeps its records in memory."""
    test_connection_cut_while_events_are_on_their_way = None  # type: ignore[assignment]
    """The brokers of the mock cluster advertise their own addresses, past any proxy."""
    test_tls_checks_server_and_client = None  # type: ignore[assignment]
    test_wrong_secret_is_in_no_error_log_or_repr = None  # type: ignore[assignment]
    """The mock cluster has neither TLS nor passwords."""
    test_confirmed_by_the_server_but_the_answer_is_lost = None  # type: ignore[assignment]

    @pytest.fixture
    def broker(self, kafka_broker: KafkaBroker) -> KafkaBroker:
        return kafka_broker

    @pytest.mark.slow
    @pytest.mark.lane("pg18")
    async def test_node_killed_while_it_relays_a_log(
        self, broker: Broker, conn: Connection, database: Target, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await super().test_node_killed_while_it_relays_a_log(broker, conn, database, monkeypatch)

    async def test_brokers_that_do_not_answer_for_a_while(self, broker: KafkaBroker) -> None:
        topic = await broker.prepare()
        messages = build_messages(topic, 1, 200)
        target = broker.target(timeout_s=1)
        await target.deliver(messages[:50])
        broker.server.freeze()
        try:
            with pytest.raises(DeliveryError, match="did not confirm"):
                await target.deliver(messages[50:100])
        finally:
            broker.server.thaw()
        await deliver_all(target, messages[50:])
        await target.close()
        # The mock cluster stores what the producer repeats; Kafka would not.
        check_content(broker, await broker.read(topic), messages, repeats_max=4 * 50)

    async def test_record_that_is_too_large_is_refused_after_those_before_it(self, broker: KafkaBroker) -> None:
        topic = await broker.prepare()
        messages = build_messages(topic, 1, 5)
        messages[2] = replace(messages[2], body=b"x" * 2000)
        target = broker.target(message_bytes_max=1500)
        with pytest.raises(TargetRefused, match="has 2000 bytes without its headers, the option message_bytes_max allows 1500"):
            await target.deliver(messages)
        await target.deliver(messages[3:])
        await target.close()
        check_content(broker, await broker.read(topic), [m for m in messages if m is not messages[2]], repeats_max=0)

    async def test_no_broker_is_a_clear_error(self, broker: KafkaBroker) -> None:
        target = broker.target(servers="127.0.0.1:9", timeout_s=2)
        with pytest.raises(DeliveryError, match=r"Kafka at 127\.0\.0\.1:9 did not confirm"):
            async with asyncio.timeout(20):
                await target.open()
        await target.close()
