"""Actions: the action queue, its handlers, retries, and all dead letters.

Owns: what waits in a namespace's queue, and how it ends. Promises: an action sent in a transaction that commits is handled at
least once, and exactly once for effects made through the transaction its handlers get, since the ack is in it; an action that
cannot be handled becomes a dead letter with its reason; nothing is lost."""

from headrace.actions.action import Action, Claim, send_action, send_action_async
from headrace.actions.after_commit import AfterCommit
from headrace.actions.dead_letters import (
    DeadLetter,
    DeadLetterGroup,
    DeadLetterId,
    discard,
    edit_dead_letter,
    get_dead_letter,
    group_dead_letters,
    list_dead_letters,
    redrive,
)
from headrace.actions.direct_delivery import PendingAction, deliver_pending, send_pending
from headrace.actions.handlers import (
    WORKERS,
    ActionHandler,
    ActionHandlers,
    Policy,
    WorkerPool,
    build_worker_pools,
    prepare_handlers,
)
from headrace.actions.queue import LEASE_S, LeaseExtender, Queue
from headrace.actions.queued import (
    ActionState,
    Attempt,
    Pause,
    PauseKind,
    QueuedAction,
    QueueState,
    Result,
    cancel_actions,
    list_attempts,
    list_pauses,
    list_queued,
    list_results,
    pause,
    queue_state,
    resume,
    run_actions_now,
    set_action_priority,
)
from headrace.actions.worker import ActionWorker

__all__ = [
    "LEASE_S",
    "WORKERS",
    "Action",
    "ActionHandler",
    "ActionHandlers",
    "ActionState",
    "ActionWorker",
    "AfterCommit",
    "Attempt",
    "Claim",
    "DeadLetter",
    "DeadLetterGroup",
    "DeadLetterId",
    "LeaseExtender",
    "Pause",
    "PauseKind",
    "PendingAction",
    "Policy",
    "Queue",
    "QueueState",
    "QueuedAction",
    "Result",
    "WorkerPool",
    "build_worker_pools",
    "cancel_actions",
    "deliver_pending",
    "discard",
    "edit_dead_letter",
    "get_dead_letter",
    "group_dead_letters",
    "list_attempts",
    "list_dead_letters",
    "list_pauses",
    "list_queued",
    "list_results",
    "pause",
    "prepare_handlers",
    "queue_state",
    "redrive",
    "resume",
    "run_actions_now",
    "send_action",
    "send_action_async",
    "send_pending",
    "set_action_priority",
]
