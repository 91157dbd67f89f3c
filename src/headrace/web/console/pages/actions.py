"""Actions: the queue by state, one action with its attempts; cancel, run now, priority, retry, pause."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import cast, get_args
from uuid import UUID

from headrace import actions
from headrace.actions import ActionState
from headrace.core import Conflict, Invalid, UnknownAction
from headrace.db import Connection, Target
from headrace.observe.history import ActionOverview, action_overview
from headrace.web.console.routes import change, read
from headrace.web.console.tables import Column, Table, to_row, wide
from headrace.web.console.view import Done, Page, View

STATES = get_args(ActionState)
OUTCOMES = ("done", "dead", "cancelled", "discarded")
QUEUED_MAX = 200
RESULTS_READ_MAX = 5_000
"""Results that are looked through for one outcome or name."""


def list_queue(view: View) -> Page:
    """How many actions are in each state, and the oldest of them; with an outcome, the newest that ended."""
    state, name, key = (view.query.get(field, "").strip() or None for field in ("state", "action", "key"))
    if state is not None and state not in (*STATES, *OUTCOMES, "ended"):
        raise Invalid(f"{state!r} is no state of an action; choose {', '.join((*STATES, *OUTCOMES))}")
    counts = [state for _, state in view.each_shard(view.bind(actions.queue_state))]
    is_ended = state in (*OUTCOMES, "ended")
    table = _ended_table(view, state, name) if is_ended else _queue_table(view, cast("ActionState | None", state), name, key)
    numbers = [
        (word, sum(getattr(count, word.replace("-", "_")) for count in counts), view.here(state=word, q=None)) for word in STATES
    ]
    pauses = view.collect(view.bind(actions.list_pauses))
    values = {
        "numbers": numbers,
        "dead": sum(count.dead for count in counts),
        "oldest_due_s": max((count.oldest_due_s for count in counts), default=0.0),
        "is_paused": any(count.paused for count in counts),
        "pauses": [pause for pause in pauses if pause["kind"] == "action"],
        "states": ("", *STATES, "ended", *OUTCOMES),
        "state": state or "",
        "action": name or "",
        "key": key or "",
        "is_ended": is_ended,
        "selection": {"action": name or "", "key": key or "", "state": state or ""},
        "is_cut": len(table.rows) >= QUEUED_MAX,
    }
    return Page("actions.html", "Actions", tables=(table,), values=values)


def _queue_table(view: View, state: ActionState | None, name: str | None, key: str | None) -> Table:
    rows = view.collect(view.bind(actions.list_queued, action=name, key=key, state=state, limit=QUEUED_MAX))
    action = Column("action", link=lambda row: action_url(view, row["action_id"]) if row["action_id"] else None)
    due, error = Column("due_at", hint="In flight: when its lease ends"), Column("error", "last error", wide=True)
    payload = Column("payload", kind="payload", wide=True)
    columns = (action, "key state", wide("attempts priority sent_at"), due, error, payload)
    shown = [{**row, "error": (row["error"] or "").split("\n")[0] or None} for row in rows]
    text = "No such action is in the queue." if state or name or key else "The queue is empty."
    return Table("actions", columns, shown, empty="headrace action send MAIL '{}'", empty_text=text, key=("action_id", "sent_at"))


def _ended_table(view: View, outcome: str | None, name: str | None) -> Table:
    wanted = None if outcome == "ended" else outcome
    read_max = RESULTS_READ_MAX if name or wanted else QUEUED_MAX
    rows = view.fetch("actions_results", outcome=wanted, action=name, rows=read_max, limit=QUEUED_MAX)
    columns = (Column("action", link=lambda row: action_url(view, row["action_id"])), "outcome attempts duration_s ended_at")
    text = "No such action has ended lately."
    return Table(
        "actions", columns, rows, empty="headrace node run shop.events:app", empty_text=text, key=("action_id", "ended_at")
    )


def show_action(view: View) -> Page:
    """One action: what sent it, its failed attempts, how it ended."""
    target, overview = _find(view, _id(view))
    queued, cause = overview.queued, overview.cause
    facts: list[tuple[str, object]] = [("State", overview.state), ("Action", overview.action)]
    if queued:
        facts += [("Key", queued.key), ("Priority", queued.priority), ("Sent", queued.sent_at), ("Due", queued.due_at)]
        facts += [("Attempts", f"{queued.attempts} of {queued.attempts_max}" if queued.attempts_max else queued.attempts)]
        facts += [("Producer", queued.producer), ("Unique key", queued.unique_key)]
    columns = ("attempt failed_at follows", Column("duration_s", wide=True), "error")
    failed, results = map(to_row, overview.attempts), map(to_row, overview.results)
    tables = (
        Table("attempts", columns, list(failed), title="Failed attempts", empty_text="No attempt has failed."),
        Table(
            "results",
            ("outcome ended_at attempts duration_s",),
            list(results),
            title="Results",
            empty_text="It has not ended yet.",
            key=("ended_at",),
        ),
    )
    values = {
        "overview": overview,
        "facts": facts,
        "cause": _sender(cause, has_left=queued is None and overview.dead_letter is None),
        "event_url": view.url(f"/events/{cause['event_id']}") if cause.get("event_id") else None,
        "payload": view.mask(queued.payload) if queued else None,
        "is_waiting": queued is not None and queued.state != "in-flight",
        "is_later": queued is not None and queued.state in ("retrying", "delayed", "held"),
        "is_cancelling": view.query.get("cancel") == "1",
        "base": f"/actions/{overview.action_id}",
        "shard": target.name if len(view.shards) > 1 else None,
    }
    return Page("action.html", f"{overview.action} {overview.action_id}", tables=tables, values=values)


def _sender(cause: Mapping[str, object], *, has_left: bool) -> str:
    """What sent an action. One that has left the queue has its event alone, and timers have none."""
    kind = cause.get("kind")
    if kind in ("rule", "correlator"):
        position = f", position {cause['position']}" if cause.get("position") else ""
        return f"{kind} {cause.get(str(kind))}, version {cause.get('version')}, on {cause.get('topic')}{position}"
    if "event_id" in cause:
        return "an event"
    return "a program, or by a timer of a correlator" if has_left else "a program"


def change_one(view: View, what: str) -> Done:
    """Cancels, runs now or reorders one action. For one that has failed, to run it now is the retry."""
    act = _read_act(view, what, "this action")
    action_id = _id(view)
    target, overview = _find(view, action_id)

    def state(conn: Connection) -> object:
        queued = actions.list_queued(conn, ids=[action_id], namespace=view.namespace)
        return {"state": queued[0].state, "priority": queued[0].priority, "due_at": queued[0].due_at} if queued else None

    def change_it(conn: Connection) -> int:
        count = act(conn, ids=[action_id], namespace=view.namespace)
        if not count:
            raise Conflict(f"action {action_id} is {overview.state}; nothing was changed")
        return count

    view.change(f"action.{what}", str(action_id), change_it, state=state, details={"action": overview.action}, targets=[target])
    done = {"cancel": "is cancelled", "run": "is due now"}.get(what, f"has priority {view.text('priority')}")
    return Done(f"action {action_id} {done}", action_url(view, action_id))


def _read_act(view: View, what: str, subject: str) -> Callable[..., int]:
    """The change of actions that a form asks for. Raises Invalid."""
    if what == "run":
        return actions.run_actions_now
    if what == "cancel":
        if view.form.get("confirm") != "yes":
            raise Invalid(f"confirm that {subject} may be cancelled")
        return partial(actions.cancel_actions, in_flight=view.form.get("in_flight") == "yes")
    if what != "priority":
        raise Invalid(f"{what!r} is not one of cancel, run, priority")
    priority = view.whole_number("priority")
    if priority is None:
        raise Invalid("give a priority, a whole number")
    return partial(actions.set_action_priority, priority=priority)


def change_selected(view: View) -> Done:
    """Cancels, runs or reorders all actions of the selection; the number is in the answer."""
    what = view.form.get("what", "")
    selection = {field: view.text(field) or None for field in ("action", "key", "state")}
    if not any(selection.values()):
        raise Invalid("choose actions by name, key or state first: without a selection the whole queue would change")
    act = _read_act(view, what, "these actions")
    subject = str(selection["action"] or selection["key"] or selection["state"])
    counts = view.change(f"actions.{what}", subject, view.bind(act, **selection), details=selection)
    words = {"cancel": "cancelled", "run": "due now", "priority": "reordered"}[what]
    return Done(f"{sum(count for _, count in counts)} actions {words}", view.url("/actions", **selection))


def pause(view: View) -> Done:
    name, is_pause = view.text("action"), view.form.get("what") != "resume"
    kind: actions.PauseKind = "action" if name else "queue"
    call = actions.pause if is_pause else actions.resume
    view.change(f"{kind}.{'pause' if is_pause else 'resume'}", name or view.namespace, view.bind(call, kind, name))
    subject = f"action {name}" if name else "the queue"
    return Done(f"{subject} {'is paused' if is_pause else 'goes on'}", view.url("/actions", action=name))


def action_url(view: View, action_id: UUID) -> str:
    return view.url(f"/actions/{action_id}")


def _id(view: View) -> UUID:
    try:
        return UUID(view.path["action"])
    except ValueError:
        raise UnknownAction(f"{view.path['action']!r} is not the id of an action") from None


def _find(view: View, action_id: UUID) -> tuple[Target, ActionOverview]:
    return view.find(view.bind(action_overview, action_id))


ROUTES = (
    read("/actions", list_queue),
    change("/actions/selected", change_selected, form=list_queue),
    change("/actions/pause", pause, form=list_queue),
    read("/actions/{action}", show_action),
    change("/actions/{action}/cancel", partial(change_one, what="cancel"), form=show_action),
    change("/actions/{action}/run", partial(change_one, what="run"), form=show_action),
    change("/actions/{action}/priority", partial(change_one, what="priority"), form=show_action),
)
