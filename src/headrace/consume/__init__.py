"""Consume: cursors, ordered delivery, failure policies, seek.

Owns: how far a consumer has come. Promises: a consumer never skips a position; its cursor moves in the same transaction as
its effects; each partition is held by one process at a time; a key's order is never lost silently."""

from headrace.consume.consumer import (
    Batch,
    Consumer,
    ConsumerLag,
    Failure,
    Handler,
    consumer_lag,
    create_consumer,
    drop_consumer,
    resume_consumer,
)
from headrace.consume.dead_letters import DeadLetter, discard, list_dead_letters, redrive
from headrace.consume.handler_calls import TransactionGuard, sync_view
from headrace.consume.runner import ConsumerRunner
from headrace.consume.seeking import Seek, seek_consumer, seek_position

__all__ = [
    "Batch",
    "Consumer",
    "ConsumerLag",
    "ConsumerRunner",
    "DeadLetter",
    "Failure",
    "Handler",
    "Seek",
    "TransactionGuard",
    "consumer_lag",
    "create_consumer",
    "discard",
    "drop_consumer",
    "list_dead_letters",
    "redrive",
    "resume_consumer",
    "seek_consumer",
    "seek_position",
    "sync_view",
]
