"""Seeded bugs: mistakes that others have made, planted on purpose, so that the checker is seen to catch them.

They are switches of the checker alone: a bug changes a function in the database of one run, a setting of its server, or a
method in its processes. The product has no line for them. Functions are edited as they stand in the database, so an edit that
no longer fits raises instead of planting nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from headrace.core import Invalid
from headrace.db import Connection, query
from headrace.prove.bug_node import PLANTS


@dataclass(frozen=True)
class Edit:
    """A change in the text of a function of the database."""

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
    before: str | None = None
    """A statement of queries/prove that comes first."""
    settings: dict[str, str] = field(default_factory=dict)
    pause_s: float = 0.0
    """How long handlers of paint take, so that there is something to interrupt."""
    spark: bool = False
    """It is a pipeline's, so the run must have one."""


BUGS = {
    one.name: one
    for one in (
        Bug(
            "serial-cursor",
            "the sequencer remembers the newest serial id it has seen, and looks for greater ones",
            "acknowledged-is-logged",
            edits=(
                Edit(
                    "headrace.sequence(integer)",
                    "with moved as (\n            delete from headrace_internal.outbox o\n"
                    "            where o.topic_id = v_topic.topic_id and",
                    "perform headrace_prove.move_serial(v_topic.topic_id, v_bound);\n        with moved as (\n"
                    "            delete from headrace_internal.outbox o\n            using headrace_prove.serial s\n"
                    "            where s.topic_id = o.topic_id and o.id > s.before and o.id <= s.upto and "
                    "o.topic_id = v_topic.topic_id and",
                ),
            ),
            before="prove/bug_serial_cursor",
        ),
        Bug(
            "ack-before-commit",
            "an action is taken out of the queue before its handler's transaction",
            "effects-once",
            pause_s=0.1,
        ),
        Bug("local-lease", "a node judges leases by its own clock, which is a minute ahead", "one-holder", pause_s=0.1),
        Bug(
            "no-fence",
            "an ack does not ask whether the lease is still held",
            "effects-once",
            edits=(
                Edit("headrace.ack_actions(bigint[],integer[],real[],uuid,text)", " and q.read_ct = h.attempt", ""),
                Edit(
                    "headrace.ack_actions(bigint[],integer[],real[],uuid,text)",
                    "if v_done < cardinality(p_msg_ids) then",
                    "if false then",
                ),
            ),
            pause_s=0.2,
        ),
        Bug("state-after-output", "a correlator's state is saved in a transaction after its outputs", "outputs-are-the-replay"),
        Bug(
            "loose-schedule",
            "nothing keeps two nodes from firing the same tick",
            "ticks-once",
            edits=(
                Edit("headrace_internal.claim_schedule(double precision)", "for no key update of s skip locked", ""),
                Edit(
                    "headrace.run_schedule(integer)",
                    "where s.schedule_id = p_schedule_id for no key update;",
                    "where s.schedule_id = p_schedule_id;",
                ),
                Edit("headrace.run_schedule(integer)", "on conflict on constraint schedule_tick_once do nothing", ""),
                Edit(
                    "headrace.run_schedule(integer)",
                    "delete from headrace_internal.schedule_due d\n"
                    "            where d.schedule_id = p_schedule_id and d.tick_at <= headrace.clock()\n"
                    "            returning d.tick_at, d.tick_at < headrace.clock()"
                    " - make_interval(secs => v_schedule.grace_s) as missed",
                    "select d.tick_at, d.tick_at < headrace.clock() - make_interval(secs => v_schedule.grace_s) as missed\n"
                    "            from headrace_internal.schedule_due d"
                    " where d.schedule_id = p_schedule_id and d.tick_at <= headrace.clock()",
                ),
                Edit(
                    "headrace.run_schedule(integer)",
                    "perform headrace_internal.publish_tick(p_schedule_id, v_tick_at);",
                    "perform headrace_internal.publish_tick(p_schedule_id, v_tick_at);\n        perform pg_sleep(0.05);\n"
                    "        delete from headrace_internal.schedule_due d where d.schedule_id = p_schedule_id and d.tick_at = v_tick_at;",
                ),
            ),
            before="prove/bug_loose_schedule",
        ),
        Bug(
            "async-commit",
            "commits are acknowledged before they are on disk",
            "acknowledged-is-logged",
            settings={"synchronous_commit": "off", "wal_writer_delay": "10s", "wal_writer_flush_after": "100000"},
        ),
        Bug(
            "no-ledger",
            "the sink does not remember which batches it has written",
            "sink-wrote-once",
            edits=(
                Edit(
                    "headrace_internal.commit_spark_batch(text,bigint,uuid[],bigint,text)",
                    "v_fresh := found;",
                    "v_fresh := true;",
                ),
            ),
        ),
        Bug(
            "cursor-before-batch",
            "a pipeline moves its cursors in one transaction and writes the batch in the next",
            "firings-are-the-rules",
            spark=True,
        ),
    )
}


def known(names: Sequence[str]) -> list[Bug]:
    if unknown := [name for name in names if name not in BUGS]:
        raise Invalid(f"there is no seeded bug {', '.join(unknown)}; known: {', '.join(BUGS)}")
    return [BUGS[name] for name in names]


def plant_in_node(names: Sequence[str], node: str) -> None:
    """Plants the bugs that are the node's in this process."""
    for bug in known(names):
        if plant := PLANTS.get(bug.name):
            plant(node)


def plant_in_database(conn: Connection, names: Sequence[str]) -> None:
    """Plants the bugs that are the database's in the database of this run."""
    for bug in known(names):
        if bug.before:
            conn.execute(query(bug.before))
        for edit in bug.edits:
            edit_function(conn, edit)
        if bug.pause_s:
            conn.execute(query("prove/set_pause"), {"name": "paint", "pause_s": bug.pause_s})


def edit_function(conn: Connection, edit: Edit) -> None:
    """Changes a function as it stands in the database."""
    row = conn.execute("select pg_get_functiondef(%s::regprocedure)", (edit.function,)).fetchone()
    assert row is not None
    if edit.old not in row[0]:
        raise Invalid(f"{edit.function} has changed: it does not hold {edit.old[:60]!r} any more; fit the edit")
    conn.execute(row[0].replace(edit.old, edit.new))


def server_settings(names: Sequence[str]) -> dict[str, str]:
    """Settings of the server that belong to bugs."""
    return {name: value for bug in known(names) for name, value in bug.settings.items()}
