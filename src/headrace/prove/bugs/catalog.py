"""The seeded bugs, each with the check that must catch it.

A bug exists in the checker alone: it changes a function in the database of one run, a setting of its server, or a method in its
processes. The product has no line for it. An edit that no longer fits its function raises, instead of planting nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from headrace.core import Invalid
from headrace.db import Connection, query
from headrace.prove.bugs.node import NODE_BUGS
from headrace.prove.functions import function_definition, replace_code


@dataclass(frozen=True)
class Edit:
    """A change in a function of the database. `old` is code; white space and comment lines in the function do not matter."""

    function: str
    old: str
    new: str


@dataclass(frozen=True)
class Bug:
    """A bug and the check that must catch it."""

    name: str
    what: str
    caught_by: str
    edits: tuple[Edit, ...] = ()
    setup: str | None = None
    """A query of prove that runs before the edits."""
    settings: dict[str, str] = field(default_factory=dict)
    """Settings of the server."""
    pause_s: float = 0.0
    """How long handlers of paint take, so that a fault can interrupt one."""
    spark: bool = False
    """It needs a pipeline."""


_SERIAL_CURSOR = Edit(
    "sequence_topic",
    "with moved as ( delete from headrace_internal.outbox o where o.topic_id = p_topic.topic_id and",
    """perform headrace_prove.move_serial(p_topic.topic_id, v_bound);
        with moved as (
            delete from headrace_internal.outbox o
            using headrace_prove.serial s
            where s.topic_id = o.topic_id and o.id > s.before and o.id <= s.upto and o.topic_id = p_topic.topic_id and""",
)
_NO_FENCE = (
    Edit("ack_actions", "and q.read_ct = h.attempt", ""),
    Edit("ack_actions", "if v_done < cardinality(p_msg_ids) then", "if false then"),
)
_LOOSE_SCHEDULE = (
    Edit("claim_schedule", "for no key update of s skip locked", ""),
    Edit(
        "run_schedule",
        "where s.schedule_id = p_schedule_id for no key update;",
        "where s.schedule_id = p_schedule_id;",
    ),
    Edit("run_schedule", "on conflict on constraint schedule_tick_once do nothing", ""),
    Edit(
        "run_schedule",
        """delete from headrace_internal.schedule_due d
            where d.schedule_id = p_schedule_id and d.tick_at <= headrace.clock()
            returning d.tick_at, d.tick_at < headrace.clock() - make_interval(secs => v_schedule.grace_s) as missed""",
        """select d.tick_at, d.tick_at < headrace.clock() - make_interval(secs => v_schedule.grace_s) as missed
            from headrace_internal.schedule_due d where d.schedule_id = p_schedule_id and d.tick_at <= headrace.clock()""",
    ),
    Edit(
        "run_schedule",
        "perform headrace_internal.publish_tick(p_schedule_id, v_tick_at);",
        """perform headrace_internal.publish_tick(p_schedule_id, v_tick_at);
        perform headrace_prove.wait_for_other_node(v_tick_at);
        delete from headrace_internal.schedule_due d where d.schedule_id = p_schedule_id and d.tick_at = v_tick_at;""",
    ),
)
_ALL = (
    Bug(
        "serial-cursor",
        "the sequencer remembers the newest serial id it has read, and looks only for greater ones",
        "acknowledged-is-logged",
        edits=(_SERIAL_CURSOR,),
        setup="prove/bug_serial_cursor",
    ),
    Bug(
        "lost-headers",
        "the sequencer drops the headers of an event",
        "events-as-sent",
        edits=(
            Edit(
                "sequence_topic",
                "n.event_id, n.type, n.key, n.payload, n.headers,",
                "n.event_id, n.type, n.key, n.payload, '{}',",
            ),
        ),
    ),
    Bug(
        "late-emitted-at",
        "an event gets the time at which it is sequenced, not that at which it was published",
        "events-as-sent",
        edits=(
            Edit(
                "sequence_topic",
                "select n.position, n.appended_at, n.emitted_at,",
                "select n.position, n.appended_at, n.appended_at,",
            ),
        ),
    ),
    Bug(
        "newest-first",
        "of the actions of a key, the one sent last is claimed first",
        "ordered-by-key",
        edits=(
            Edit("claim_ordered_actions", "and e.msg_id < f.msg_id and e.ctid not in (select d.place from due d)", "and false"),
            Edit("claim_ordered_actions", "order by f.msg_id limit $2", "order by f.msg_id desc limit 1"),
        ),
    ),
    Bug(
        "forgotten-key",
        "an action is sent again although its unique key is in the queue",
        "unique-once",
        edits=(Edit("claim_unique_key", "if v_is_held or v_holder.unique_until > headrace.clock() then", "if false then"),),
    ),
    Bug(
        "no-delay",
        "an action is due when it is sent",
        "not-before-its-time",
        edits=(Edit("send_action", "headrace.clock() + coalesce(p_delay, interval '0')", "headrace.clock()"),),
    ),
    Bug(
        "no-pause",
        "actions are claimed whether they are paused or not",
        "nothing-starts-paused",
        edits=(Edit("unpaused_actions", "return array(", "return p_actions; return array("),),
    ),
    Bug(
        "double-redrive",
        "a redrive sends a dead letter twice",
        "redriven-once",
        edits=(
            Edit(
                "redrive_actions",
                "perform headrace.send_actions(v_namespace, v_actions);",
                "perform headrace.send_actions(v_namespace, v_actions || v_actions);",
            ),
        ),
    ),
    Bug("interrupted-is-done", "a handler that raises BaseException counts as one that has returned", "redriven-once"),
    Bug("ack-before-commit", "an action is deleted from the queue before its handler's transaction", "effects-once", pause_s=0.1),
    Bug(
        "local-lease",
        "a node judges leases by its own clock, which is a minute ahead",
        "one-holder",
        setup="prove/bug_local_lease",
    ),
    Bug("no-fence", "an ack does not check whether the lease is still held", "effects-once", edits=_NO_FENCE),
    Bug("first-capture", "a correlator keeps what it has captured first", "outputs-match-replay"),
    Bug(
        "state-after-output",
        "a correlator's state is saved in a transaction after its outputs, which may fail",
        "outputs-match-replay",
    ),
    Bug(
        "loose-schedule",
        "nothing keeps two nodes from firing the same tick",
        "ticks-once",
        edits=_LOOSE_SCHEDULE,
        setup="prove/bug_loose_schedule",
    ),
    Bug(
        "async-commit",
        "commits are acknowledged before they are on disk",
        "acknowledged-is-logged",
        settings={"synchronous_commit": "off", "wal_writer_delay": "10s", "wal_writer_flush_after": "100000"},
    ),
    Bug(
        "no-ledger",
        "the sink does not record which batches it has written",
        "sink-writes-once",
        edits=(Edit("commit_spark_batch", "v_fresh := found;", "v_fresh := true;"),),
    ),
    Bug(
        "half-erasure",
        "an erasure leaves the states of correlators",
        "erased-is-gone",
        edits=(
            Edit(
                "erase_correlations",
                "delete from headrace_internal.correlator_instance i where",
                "delete from headrace_internal.correlator_instance i where false and",
            ),
        ),
    ),
    Bug("no-relay-ledger", "a relay's target does not know what was delivered", "consumed-once"),
    Bug(
        "cursor-before-batch",
        "a pipeline advances its cursors in one transaction and writes the batch in the next",
        "firings-match-rules",
        spark=True,
    ),
)
BUGS = {bug.name: bug for bug in _ALL}


def find_bugs(names: Sequence[str]) -> list[Bug]:
    if unknown := [name for name in names if name not in BUGS]:
        raise Invalid(f"there is no seeded bug {', '.join(unknown)}; known: {', '.join(BUGS)}")
    return [BUGS[name] for name in names]


def plant_in_node(names: Sequence[str], node: str) -> None:
    """Plants the bugs of a node in this process."""
    for bug in find_bugs(names):
        if plant := NODE_BUGS.get(bug.name):
            plant(node)


def plant_in_database(conn: Connection, names: Sequence[str]) -> None:
    """Plants the bugs of the database in the database of this run."""
    for bug in find_bugs(names):
        if bug.setup:
            conn.execute(query(bug.setup))
        for edit in bug.edits:
            edit_function(conn, edit)
        if bug.pause_s:
            conn.execute(query("prove/set_pause"), {"name": "paint", "pause_s": bug.pause_s})


def edit_function(conn: Connection, edit: Edit) -> None:
    """Changes a function in the database."""
    conn.execute(replace_code(function_definition(conn, edit.function), edit.old, edit.new))


def server_settings(names: Sequence[str]) -> dict[str, str]:
    """The settings of the server that belong to the bugs."""
    return {name: value for bug in find_bugs(names) for name, value in bug.settings.items()}
