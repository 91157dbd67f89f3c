"""Actions: the action queue, its handlers, retries, and all dead letters.

Owns: what waits in a namespace's queue, and how it ends. Promises: an action sent in a transaction that commits is handled at
least once, and exactly once for effects made through the transaction its handlers get, since the ack is in it; an action that
cannot be handled becomes a dead letter with its reason; nothing is lost."""

from headrace.actions.action import (
    Action as Action,
    Claim as Claim,
    send_action as send_action,
    send_action_async as send_action_async,
)
from headrace.actions.after_commit import AfterCommit as AfterCommit
from headrace.actions.dead_letters import (
    DeadLetter as DeadLetter,
    DeadLetterGroup as DeadLetterGroup,
    DeadLetterId as DeadLetterId,
    discard as discard,
    edit_dead_letter as edit_dead_letter,
    get_dead_letter as get_dead_letter,
    group_dead_letters as group_dead_letters,
    list_dead_letters as list_dead_letters,
    redrive as redrive,
)
from headrace.actions.direct_delivery import (
    PendingAction as PendingAction,
    deliver_pending as deliver_pending,
    send_pending as send_pending,
)
from headrace.actions.handlers import (
    WORKERS as WORKERS,
    ActionHandler as ActionHandler,
    ActionHandlers as ActionHandlers,
    Policy as Policy,
    WorkerPool as WorkerPool,
    build_worker_pools as build_worker_pools,
    prepare_handlers as prepare_handlers,
)
from headrace.actions.queue import LEASE_S as LEASE_S, LeaseExtender as LeaseExtender, Queue as Queue
from headrace.actions.queued import (
    ActionState as ActionState,
    Attempt as Attempt,
    Pause as Pause,
    PauseKind as PauseKind,
    QueuedAction as QueuedAction,
    QueueState as QueueState,
    Result as Result,
    cancel_actions as cancel_actions,
    list_attempts as list_attempts,
    list_pauses as list_pauses,
    list_queued as list_queued,
    list_results as list_results,
    pause as pause,
    queue_state as queue_state,
    resume as resume,
    run_actions_now as run_actions_now,
    set_action_priority as set_action_priority,
)
from headrace.actions.worker import ActionWorker as ActionWorker
