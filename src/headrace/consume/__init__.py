"""Consume: cursors, ordered delivery, failure policies, seek.

Owns: how far a consumer has come. Promises: a consumer never skips a position; its cursor moves in the same transaction as
its effects; each partition is held by one process at a time; a key's order is never lost silently."""

from headrace.consume._consumer import (
    Batch,
    Consumer,
    Failure,
    Handler,
    Lag,
    create_consumer,
    drop_consumer,
    lag,
    resume,
)
from headrace.consume._dead_letter import DeadLetter, discard, list_dead_letters, redrive
from headrace.consume._handler import KeptOpen, plain_face
from headrace.consume._runner import Runner
from headrace.consume._seek import Seek, seek, seek_position

__all__ = [
    "Batch",
    "Consumer",
    "DeadLetter",
    "Failure",
    "Handler",
    "KeptOpen",
    "Lag",
    "Runner",
    "Seek",
    "create_consumer",
    "discard",
    "drop_consumer",
    "lag",
    "list_dead_letters",
    "plain_face",
    "redrive",
    "resume",
    "seek",
    "seek_position",
]
