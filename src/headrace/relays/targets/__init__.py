"""Targets: the systems that relays deliver to, one module per kind; other packages add kinds by entry points.

Promises: a kind's module and its packages are imported when a relay of that kind is checked or opened, and not before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headrace.core import JSON, ExtensionPoint, HeadraceError, InvalidRelay
from headrace.relays.targets.options import Option, Options, fill_template, find_mistakes
from headrace.relays.targets.target import DeliveryError, Message, Target, TargetGone, TargetKind, TargetRefused

__all__ = [
    "TARGETS",
    "DeliveryError",
    "Message",
    "Option",
    "Options",
    "Target",
    "TargetGone",
    "TargetKind",
    "TargetRefused",
    "check_options",
    "fill_template",
    "find_mistakes",
    "open_target",
]

TARGETS: Final[ExtensionPoint[TargetKind]] = ExtensionPoint(
    group="headrace.relay_targets",
    noun="target",
    contract=TargetKind,
    own={
        "kafka": "headrace.relays.targets.kafka:KafkaTarget",
        "nats": "headrace.relays.targets.nats:NatsTarget",
        "postgres": "headrace.relays.targets.postgres",
        "rabbitmq": "headrace.relays.targets.rabbitmq:RabbitMQTarget",
        "rabbitmq-stream": "headrace.relays.targets.rabbitmq_stream:RabbitMQStreamTarget",
        "redis": "headrace.relays.targets.redis:RedisTarget",
        "webhook": "headrace.relays.targets.webhook",
    },
    extras={"rabbitmq-stream": "rabbitmq"},
)


def open_target(kind: str, relay_name: str, options: Mapping[str, JSON], secrets: Mapping[str, str]) -> Target:
    """The target of a relay, not connected yet. Raises PackageMissing for a kind that is not here."""
    return TARGETS.load(kind).open_target(relay_name, options, secrets)


def check_options(kind: str, options: Mapping[str, JSON]) -> list[str]:
    """A message for each mistake in the options of a target. Raises PackageMissing for a kind that is not here."""
    target = TARGETS.load(kind)
    try:
        return list(target.check_options(options))
    except HeadraceError:
        raise
    except Exception as error:
        raise InvalidRelay(f"the target {kind!r} failed to check its options: {type(error).__name__}: {error}") from error
