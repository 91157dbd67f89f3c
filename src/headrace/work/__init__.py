"""Work: the action queue, handlers, retry, dead letters.

Owns: what waits in a namespace's queue, and how it ends. Promises: an action sent in a transaction that commits is handled at
least once, and exactly once for effects made through the transaction its handlers get, since the ack is in it; one that
cannot be handled becomes a dead letter with its reason, and nothing is lost on the way."""

from headrace.work._action import Action, send_action, send_action_async
from headrace.work._dead_letter import (
    DeadGroup,
    DeadLetter,
    edit_dead_letter,
    group_dead_letters,
    list_dead_letters,
    purge,
    redrive,
    show_dead_letter,
)
from headrace.work._direct import Pending, hand_over, send_pending
from headrace.work._handler import BATCH_MAX, ActionHandler, Handling, Policy
from headrace.work._keeper import Keeper
from headrace.work._lane import WORKERS, Bucket, Lane, Pace, lanes
from headrace.work._queue import LEASE_S, Queue, lease_pool
from headrace.work._result import Attempt, QueueState, Result, list_attempts, list_results, queue_state
from headrace.work._worker import Worker

__all__ = [
    "BATCH_MAX",
    "LEASE_S",
    "WORKERS",
    "Action",
    "ActionHandler",
    "Attempt",
    "Bucket",
    "DeadGroup",
    "DeadLetter",
    "Handling",
    "Keeper",
    "Lane",
    "Pace",
    "Pending",
    "Policy",
    "Queue",
    "QueueState",
    "Result",
    "Worker",
    "edit_dead_letter",
    "group_dead_letters",
    "hand_over",
    "lanes",
    "lease_pool",
    "list_attempts",
    "list_dead_letters",
    "list_results",
    "purge",
    "queue_state",
    "redrive",
    "send_action",
    "send_action_async",
    "send_pending",
    "show_dead_letter",
]
