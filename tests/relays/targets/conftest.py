"""Brokers, each started once per run and worker; the tests of one file run on one worker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.relays.targets.brokers import KafkaBroker, RedisBroker
from tests.relays.targets.servers import NatsServer, RabbitMQServer


@pytest.fixture(scope="session")
def nats_server() -> Iterator[NatsServer]:
    server = NatsServer()
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def redis_broker() -> Iterator[RedisBroker]:
    broker = RedisBroker()
    broker.server.start()
    yield broker
    broker.server.stop()


@pytest.fixture(scope="session")
def rabbitmq_server() -> Iterator[RabbitMQServer]:
    server = RabbitMQServer()
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def kafka_broker() -> Iterator[KafkaBroker]:
    broker = KafkaBroker()
    broker.server.start()
    yield broker
    broker.server.stop()
