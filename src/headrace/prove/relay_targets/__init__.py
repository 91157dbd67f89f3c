"""Relay targets of a run: servers of the checker's own that relays deliver to through a proxy, and what they have at the end.

Promises: a server listens on loopback only, keeps what it confirms, can be killed and started again on its data, and ends with the run.
The package of a target is imported when it is used."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path

from headrace.core import Invalid
from headrace.prove.evidence import RelayedEvents
from headrace.prove.relay_targets.target import RelayTarget

_CLASSES: Mapping[str, tuple[str, str]] = {
    "headrace": ("postgres", "HeadraceTarget"),
    "kafka": ("kafka", "KafkaTarget"),
    "nats": ("streams", "NatsTarget"),
    "postgres": ("postgres", "PostgresTarget"),
    "rabbitmq": ("rabbitmq", "RabbitMQTarget"),
    "rabbitmq-stream": ("rabbitmq", "RabbitMQStreamTarget"),
    "redis": ("streams", "RedisTarget"),
    "webhook": ("webhook", "WebhookTarget"),
}
RELAY_KINDS = tuple(_CLASSES)


def _class(kind: str) -> type[RelayTarget]:
    if kind not in _CLASSES:
        raise Invalid(f"there is no relay {kind}; known: {', '.join(RELAY_KINDS)}")
    module, name = _CLASSES[kind]
    found: type[RelayTarget] = getattr(import_module(f"headrace.prove.relay_targets.{module}"), name)
    return found


def check_relay_kinds(kinds: Sequence[str]) -> None:
    """Raises Invalid for a relay that the checker does not know, or whose program or package is missing."""
    for kind in kinds:
        _class(kind).require()


@contextmanager
def running_targets(kinds: Sequence[str], folder: Path) -> Iterator[list[RelayTarget]]:
    """Targets with a place for the relay, each behind a proxy."""
    with ExitStack() as stack:
        targets: list[RelayTarget] = []
        for kind in kinds:
            target = _class(kind)(folder)
            target.proxy.start()
            stack.callback(target.proxy.stop)
            stack.callback(target.stop)
            target.start()
            asyncio.run(target.prepare())
            targets.append(target)
        yield targets


def read_targets(targets: Sequence[RelayTarget]) -> dict[str, RelayedEvents]:
    """What each target has."""
    return {target.kind: RelayedEvents(target.delivery, asyncio.run(target.read())) for target in targets}
