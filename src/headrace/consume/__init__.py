"""Consume: cursors, ordered delivery, failure policies, seek, and the calling of handlers.

Owns: how far a consumer has read. Promises: a consumer never skips a position; its cursor moves in the same transaction as its
effects; one process at a time holds a partition; the order of a key is never lost silently."""

from headrace.consume.consumer import (
    Batch,
    Consumer,
    ConsumerLag,
    Failure,
    Handler,
    Seek,
    consumer_lag,
    create_consumer,
    drop_consumer,
    resume_consumer,
    seek_consumer,
    seek_position,
)
from headrace.consume.handler_calls import HandlerGroup, call_handlers
from headrace.consume.runner import ConsumerRunner

__all__ = [
    "Batch",
    "Consumer",
    "ConsumerLag",
    "ConsumerRunner",
    "Failure",
    "Handler",
    "HandlerGroup",
    "Seek",
    "call_handlers",
    "consumer_lag",
    "create_consumer",
    "drop_consumer",
    "resume_consumer",
    "seek_consumer",
    "seek_position",
]
