"""Consume: cursors, ordered delivery, failure policies, seek, and the calling of handlers.

Owns: how far a consumer has read. Promises: a consumer never skips a position; its cursor moves in the same transaction as its
effects; one process at a time holds a partition; the order of a key is never lost silently."""

from headrace.consume.conditions import ConditionCompiler, printed_condition
from headrace.consume.consumer import (
    Batch,
    Consumer,
    ConsumerLag,
    ConsumerSettings,
    Failure,
    Handler,
    Seek,
    SkippedEvent,
    consumer_lag,
    create_consumer,
    drop_consumer,
    get_consumer,
    prepare_consumer,
    resume_consumer,
    seek_consumer,
    seek_position,
    skip_event,
)
from headrace.consume.due_poll import DuePoll
from headrace.consume.handler_calls import (
    HandlerError,
    HandlerGroup,
    call_handlers,
    describe_error,
    error_summary,
    first_line,
    handler_gate,
    run_after_commit,
)
from headrace.consume.payloads import Numbers
from headrace.consume.prepared_handlers import HandlerOptions, prepare_handler
from headrace.consume.runner import ConsumerRunner
from headrace.consume.signatures import Delivery

__all__ = [
    "Batch",
    "ConditionCompiler",
    "Consumer",
    "ConsumerLag",
    "ConsumerRunner",
    "ConsumerSettings",
    "Delivery",
    "DuePoll",
    "Failure",
    "Handler",
    "HandlerError",
    "HandlerGroup",
    "HandlerOptions",
    "Numbers",
    "Seek",
    "SkippedEvent",
    "call_handlers",
    "consumer_lag",
    "create_consumer",
    "describe_error",
    "drop_consumer",
    "error_summary",
    "first_line",
    "get_consumer",
    "handler_gate",
    "prepare_consumer",
    "prepare_handler",
    "printed_condition",
    "resume_consumer",
    "run_after_commit",
    "seek_consumer",
    "seek_position",
    "skip_event",
]
