"""RabbitMQ, an exchange or a queue: at least once, with publisher confirms.

Messages are persistent and mandatory: one that no queue takes is an error, not a loss. Events of one key are sent one after the other,
each after the confirmation of the one before it, because a queue may refuse an event and take the next one; other events are on their
way at the same time. After a failure the batch is sent again, so a queue may have events twice, and only then; the message id is the
event id."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractExchange
from aio_pika.exceptions import AMQPError, DeliveryError as NotConfirmed, PublishError

from headrace.relays.targets.broker import BrokerTarget, HeaderEncoder
from headrace.relays.targets.options import (
    MESSAGE_FIELDS,
    RABBITMQ_OPTIONS,
    Option,
    fill_template,
    tls_context,
)
from headrace.relays.targets.target import DeliveryError, Message, TargetRefused

OPTIONS: Final[Mapping[str, Option]] = {
    **RABBITMQ_OPTIONS,
    "exchange": Option("text", default=""),
    "routing_key": Option("template", required=True, fields=MESSAGE_FIELDS),
}
"""`exchange`: without it `routing_key` is the name of a queue."""
ROUTING_KEY_BYTES_MAX: Final = 255
RESERVED_HEADERS: Final = ("cc", "bcc", "x-")
"""`CC` and `BCC` route copies of a message to other queues; `x-` is RabbitMQ's own."""
_HEADERS: Final = HeaderEncoder[tuple[str, Any]](lambda name, value: (name, value), reserved=RESERVED_HEADERS)


@dataclass(frozen=True)
class Session:
    """A connection with its channel."""

    connection: AbstractConnection
    channel: AbstractChannel


class RabbitMQTarget(BrokerTarget[Session]):
    """One exchange, over one connection and one channel with confirms."""

    option_table = OPTIONS
    errors = (AMQPError, NotConfirmed, RuntimeError)
    refusals = (NotConfirmed, TargetRefused)

    async def _connect(self) -> Session:
        tls = tls_context(self._options, self._secrets)
        connection = await aio_pika.connect(
            host=self._options.text("host"),
            port=self._port,
            login=self._secrets.get("user") or self._options.text("user"),
            password=self._secrets["password"],
            virtualhost=self._options.text("virtual_host"),
            ssl=tls is not None,
            ssl_context=tls,
            client_properties={"connection_name": f"headrace relay {self._relay}"},
        )
        try:
            return Session(connection, await connection.channel(publisher_confirms=True, on_return_raises=True))
        except BaseException:
            await connection.close()
            raise

    def _is_open(self, client: Session) -> bool:
        return not client.channel.is_closed

    async def _close(self, client: Session) -> None:
        await client.connection.close()

    async def _send(self, client: Session, messages: Sequence[Message], delivered: set[int]) -> None:
        """Publishes the events of each key in their order, and those without a key, all at once."""
        exchange = await client.channel.get_exchange(self._options.text("exchange"), ensure=False)
        chains: dict[str | int, list[Message]] = {}
        for message in messages:
            chains.setdefault(message.position if message.key is None else message.key, []).append(message)
        tasks = [asyncio.ensure_future(self._publish_in_order(exchange, chain, delivered)) for chain in chains.values()]
        try:
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            for task in tasks:
                task.cancel()
        errors = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        if errors:
            # A lost connection explains the other errors; a message that can never be delivered comes last, after those that can.
            raise min(errors, key=lambda error: (isinstance(error, TargetRefused), isinstance(error, NotConfirmed)))

    async def _publish_in_order(self, exchange: AbstractExchange, messages: Sequence[Message], delivered: set[int]) -> None:
        for message in messages:
            routing_key = fill_template(self._options.text("routing_key"), message)
            if (size := len(routing_key.encode())) > ROUTING_KEY_BYTES_MAX:
                raise TargetRefused(
                    f"position {message.position} has a routing key of {size} bytes, RabbitMQ takes {ROUTING_KEY_BYTES_MAX}; "
                    "change the option routing_key"
                )
            await exchange.publish(_amqp_message(message), routing_key, mandatory=True)
            delivered.add(message.position)

    def _failure(self, error: BaseException) -> DeliveryError:
        if isinstance(error, PublishError):
            text = f"{self._destination} has no queue for the routing key of a message; bind a queue, or change routing_key"
        elif isinstance(error, NotConfirmed):
            text = f"{self._destination} refused a message; its queue may be full"
        else:
            text = f"{self._destination} did not confirm: {_reason(error)}"
        return DeliveryError(text)

    @property
    def _port(self) -> int:
        return self._options.optional_integer("port") or (5671 if self._options.flag("tls") else 5672)

    @property
    def _destination(self) -> str:
        exchange = self._options.text("exchange")
        name = f"exchange {exchange!r}" if exchange else "the default exchange"
        return f"{name} of RabbitMQ at {self._options.text('host')}:{self._port}"


def _amqp_message(message: Message) -> aio_pika.Message:
    return aio_pika.Message(
        message.body,
        headers=dict(_HEADERS.encode(message)),
        content_type=message.content_type,
        delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
        message_id=str(message.event_id),
        timestamp=message.emitted_at,
        type=message.event_type,
        app_id="headrace",
    )


def _reason(error: BaseException) -> str:
    """What the server said, without anything that was sent."""
    return (
        " ".join(str(argument) for argument in error.args[:2])
        if isinstance(error, AMQPError) and error.args
        else type(error).__name__
    )
