"""Consume: cursors, ordered delivery, failure policies, seek, and the calling of handlers.

Owns: how far a consumer has read. Promises: a consumer never skips a position; its cursor moves in the same transaction as its
effects; one process at a time holds a partition; the order of a key is never lost silently."""

from headrace.consume.conditions import ConditionCompiler as ConditionCompiler, printed_condition as printed_condition
from headrace.consume.consumer import (
    Batch as Batch,
    Consumer as Consumer,
    ConsumerLag as ConsumerLag,
    ConsumerSettings as ConsumerSettings,
    Failure as Failure,
    Handler as Handler,
    Seek as Seek,
    SkippedEvent as SkippedEvent,
    consumer_lag as consumer_lag,
    create_consumer as create_consumer,
    drop_consumer as drop_consumer,
    get_consumer as get_consumer,
    prepare_consumer as prepare_consumer,
    resume_consumer as resume_consumer,
    seek_consumer as seek_consumer,
    seek_position as seek_position,
    skip_event as skip_event,
)
from headrace.consume.due_poll import DuePoll as DuePoll
from headrace.consume.handler_calls import (
    HandlerError as HandlerError,
    HandlerGroup as HandlerGroup,
    call_handlers as call_handlers,
    describe_error as describe_error,
    error_summary as error_summary,
    first_line as first_line,
    handler_gate as handler_gate,
    run_after_commit as run_after_commit,
)
from headrace.consume.payloads import Numbers as Numbers
from headrace.consume.prepared_handlers import HandlerOptions as HandlerOptions, prepare_handler as prepare_handler
from headrace.consume.runner import ConsumerRunner as ConsumerRunner
from headrace.consume.signatures import Delivery as Delivery
