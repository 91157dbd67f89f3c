"""Work: the action queue, handlers, retry, dead letters.

Owns: what waits in a namespace's queue, and how it ends. Promises: an action sent in a transaction that commits is handled at
least once, and exactly once for effects made through the transaction its handlers get, since the ack is in it; one that
cannot be handled becomes a dead letter with its reason, and nothing is lost on the way."""

from headrace.actions.action import Action, send_action, send_action_async
from headrace.actions.dead_letters import (
    DeadGroup,
    DeadLetter,
    edit_dead_letter,
    group_dead_letters,
    list_dead_letters,
    purge,
    redrive,
    show_dead_letter,
)
from headrace.actions.direct import Pending, hand_over, send_pending
from headrace.actions.handlers import BATCH_MAX, ActionHandler, Handling, Policy
from headrace.actions.lanes import WORKERS, Bucket, Lane, Pace, lanes
from headrace.actions.leases import LeaseExtender
from headrace.actions.queue import LEASE_S, Queue, lease_pool
from headrace.actions.results import Attempt, QueueState, Result, list_attempts, list_results, queue_state
from headrace.actions.worker import ActionWorker

__all__ = [
    "BATCH_MAX",
    "LEASE_S",
    "WORKERS",
    "Action",
    "ActionHandler",
    "ActionWorker",
    "Attempt",
    "Bucket",
    "DeadGroup",
    "DeadLetter",
    "Handling",
    "Lane",
    "LeaseExtender",
    "Pace",
    "Pending",
    "Policy",
    "Queue",
    "QueueState",
    "Result",
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
