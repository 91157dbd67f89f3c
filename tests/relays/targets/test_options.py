"""Options of brokers are checked by name, type and range before anything connects; no message repeats a value."""

from __future__ import annotations

import pytest

from headrace.core import JSON
from headrace.relays.targets import check_options

NATS: dict[str, JSON] = {"servers": "nats.example:4222", "stream": "EVENTS"}
REDIS: dict[str, JSON] = {"host": "redis.example"}
RABBITMQ: dict[str, JSON] = {"host": "rabbit.example", "password": "env:RELAY_RABBIT", "routing_key": "orders"}
STREAM: dict[str, JSON] = {"host": "rabbit.example", "password": "file:/run/secrets/rabbit"}
KAFKA: dict[str, JSON] = {"servers": ["a.example:9092", "[::1]:9092"]}


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("nats", {**NATS, "user": "u", "password": "env:RELAY_N", "subject": "orders.{partition}", "tls": True}),
        ("redis", {**REDIS, "port": 6380, "maxlen": 1000, "tls": True, "tls_ca": "file:ca.pem"}),
        ("rabbitmq", {**RABBITMQ, "exchange": "events", "routing_key": "{topic}.{type}.{key}"}),
        ("rabbitmq-stream", {**STREAM, "stream": "{relay}", "timeout_s": 2.5}),
        ("kafka", {**KAFKA, "compression": "gzip", "user": "u", "password": "env:RELAY_K", "sasl_mechanism": "SCRAM-SHA-512"}),
    ],
)
def test_right_options_have_no_mistakes(kind: str, options: dict[str, JSON]) -> None:
    assert check_options(kind, options) == []


@pytest.mark.parametrize(
    ("kind", "options", "mistake"),
    [
        ("nats", {"servers": "a:1"}, "option 'stream' is missing"),
        ("nats", {**NATS, "subjet": "x"}, "option 'subjet' is unknown; did you mean 'subject'?"),
        (
            "nats",
            {**NATS, "subject": "orders.{type}"},
            "option 'subject' may contain {relay}, {topic}, {partition} and no other braces",
        ),
        ("nats", {**NATS, "subject": "orders.{"}, "option 'subject' has a brace without its partner"),
        ("nats", {**NATS, "subject": "{topic.__class__}"}, "option 'subject' may contain"),
        ("nats", {**NATS, "user": "u"}, "the options user and password are used together"),
        (
            "nats",
            {**NATS, "token": "env:RELAY_T", "user": "u", "password": "env:RELAY_P"},
            "only one of the options password and token",
        ),
        ("nats", {**NATS, "servers": "nats://u:p@a:1"}, "option 'servers' must be host:port or a list of them"),
        ("nats", {**NATS, "servers": []}, "option 'servers' must be host:port or a list of them"),
        ("redis", {**REDIS, "port": "6379"}, "option 'port' must be an integer"),
        ("redis", {**REDIS, "port": 70000}, "option 'port' must be at most 65535, it is 70000"),
        ("redis", {**REDIS, "maxlen": True}, "option 'maxlen' must be an integer"),
        ("redis", {**REDIS, "timeout_s": 0}, "option 'timeout_s' must be at least 0.1, it is 0"),
        ("redis", {**REDIS, "tls_ca": "file:ca.pem"}, "option 'tls_ca' needs tls: true"),
        ("redis", {**REDIS, "tls": "yes"}, "option 'tls' must be true or false"),
        ("redis", {**REDIS, "tls": True, "tls_key": "file:k"}, "the options tls_certificate and tls_key are used together"),
        ("rabbitmq", {"host": "h", "routing_key": "q"}, "option 'password' is missing"),
        ("rabbitmq", {**RABBITMQ, "password": "hunter2"}, "option 'password' must be a reference to a secret: env:NAME"),
        ("rabbitmq-stream", {**STREAM, "host": ""}, "option 'host' must be a text"),
        ("kafka", {**KAFKA, "compression": "rar"}, "option 'compression' must be one of gzip, snappy, lz4, zstd"),
        ("kafka", {**KAFKA, "acks": 1}, "option 'acks' is unknown; "),
        ("kafka", {}, "option 'servers' is missing"),
    ],
)
def test_mistake_is_named_with_its_option(kind: str, options: dict[str, JSON], mistake: str) -> None:
    mistakes = check_options(kind, options)
    assert len(mistakes) == 1 and mistake in mistakes[0]
    for value in ("hunter2", "u:p@"):
        assert value not in mistakes[0]
