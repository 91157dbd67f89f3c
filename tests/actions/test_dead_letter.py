"""Dead letters of actions: list, group, show, edit, redrive, purge; and what no node handles."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID, uuid4

import pytest

from headrace.actions import (
    edit_dead_letter,
    group_dead_letters,
    list_dead_letters,
    list_results,
    purge,
    redrive,
    send_action,
    show_dead_letter,
)
from headrace.consume import Consumer, Failure, create_consumer
from headrace.core import UnknownDeadLetter
from headrace.db import Connection
from tests.actions.conftest import Bench, Picky, run_dry, send, waiting, write
from tests.builders import fill, topic

Effects = Callable[[], list[object]]


async def bury(conn: Connection, bench: Bench, *numbers: int) -> list[UUID]:
    """Actions that fail for good."""
    sent = [send_action(conn, "work", number, key=f"k{number}") for number in numbers]
    await run_dry(bench.worker(Picky(*numbers).handle, attempts=1))
    return sent


async def test_dead_letters_are_grouped_by_the_kind_of_their_error(conn: Connection, bench: Bench, effects: Effects) -> None:
    await bury(conn, bench, 1, 22, 333)
    send(conn, 1, action="other")
    conn.execute("update pgmq.q_hr_default set vt = now() - interval '1 minute'")
    conn.execute("select headrace_internal.bury_unhandled()")
    groups = [(group.action, group.reason, group.error_group, group.dead) for group in group_dead_letters(conn)]
    assert groups == [
        ("work", "failed", "ValueError: cannot handle #", 3),
        ("other", "no_handler", "no node of namespace default handles action other", 1),
    ]
    assert len(list_dead_letters(conn, error="ValueError: cannot handle 7")) == 3
    assert len(list_dead_letters(conn, action="other")) == 1


async def test_redriven_action_is_handled_and_the_original_is_kept(conn: Connection, bench: Bench, effects: Effects) -> None:
    sent = await bury(conn, bench, 1, 2)
    assert redrive(conn, ids=[list_dead_letters(conn)[0].dead_letter_id]) == 1
    await run_dry(bench.worker(write))
    assert (effects(), len(list_dead_letters(conn))) == ([1], 1)
    (kept,) = list_dead_letters(conn, redriven=True)
    assert (kept.action_id, kept.payload, kept.redriven_at is not None) == (sent[0], 1, True)
    assert [result.outcome for result in list_results(conn, sent[:1])] == ["dead", "done"]


async def test_edited_payload_is_what_a_redrive_sends(conn: Connection, bench: Bench, effects: Effects) -> None:
    await bury(conn, bench, 1)
    (letter,) = list_dead_letters(conn)
    edit_dead_letter(conn, letter.dead_letter_id, 42)
    edited = show_dead_letter(conn, letter.dead_letter_id)
    assert (edited.payload, edited.edited, edited.envelope) == (42, True, letter.envelope)
    redrive(conn)
    await run_dry(bench.worker(write))
    assert effects() == [42]
    (kept,) = list_dead_letters(conn, redriven=True)
    assert kept.envelope == letter.envelope


async def test_many_are_redriven_by_kind_of_error_and_start_with_fresh_attempts(
    conn: Connection, bench: Bench, effects: Effects
) -> None:
    await bury(conn, bench, 1, 2, 3)
    assert redrive(conn, action="nobody") == 0
    assert redrive(conn, error="ValueError: cannot handle 9") == 3
    assert conn.execute("select distinct read_ct from pgmq.q_hr_default").fetchall() == [(0,)]
    assert redrive(conn) == 0, "what is redriven is not redriven twice"


async def test_purged_dead_letters_are_gone(conn: Connection, bench: Bench, effects: Effects) -> None:
    await bury(conn, bench, 1, 2, 3)
    assert purge(conn, ids=[list_dead_letters(conn)[0].dead_letter_id]) == 1
    assert purge(conn) == 2
    assert list_dead_letters(conn) == []


def test_unknown_dead_letter_is_told(conn: Connection) -> None:
    with pytest.raises(UnknownDeadLetter, match="no dead letter 77"):
        show_dead_letter(conn, 77)
    with pytest.raises(UnknownDeadLetter, match="no dead letter 77"):
        edit_dead_letter(conn, 77, 1)


async def test_one_view_shows_dead_letters_of_consumers_and_of_actions(conn: Connection, bench: Bench, effects: Effects) -> None:
    await bury(conn, bench, 1)
    topic(conn)
    fill(conn, 1)

    async def unused(event: object, tx: object) -> None: ...

    consumer = create_consumer(conn, Consumer(topic="orders", name="c", handler=unused, failure=Failure.dead_letter()))
    conn.execute("select headrace_internal.bury(%s, 0, 1, 'dead', 'handler failed', 'E', 5)", (consumer,))
    shown = conn.execute("select kind, source, name from headrace.dead_letters order by kind").fetchall()
    assert shown == [("action", "queue", "work"), ("event", "orders/c", "placed")]


def register(conn: Connection, *handlers: str, ago: str = "0 s") -> UUID:
    node_id = uuid4()
    conn.execute("select headrace.register_node(%s, 'n', '1', %s)", (node_id, list(handlers)))
    conn.execute(
        "update headrace_internal.node set heartbeat_at = headrace.clock() - %s::interval where node_id = %s", (ago, node_id)
    )
    return node_id


def send_a_while_ago(conn: Connection, action: str) -> None:
    send(conn, 1, action=action)
    conn.execute("update pgmq.q_hr_default set vt = now() - interval '1 minute'")


def unhandled(conn: Connection) -> int:
    (count,) = conn.execute("select headrace_internal.bury_unhandled(10)").fetchone() or (0,)
    return int(count)


def test_action_that_no_alive_node_handles_is_buried_with_the_reason(conn: Connection) -> None:
    register(conn, "work")
    send_a_while_ago(conn, "other")
    assert unhandled(conn) == 1
    (letter,) = list_dead_letters(conn)
    assert (letter.reason, letter.error, letter.attempts) == (
        "no_handler",
        "no node of namespace default handles action other",
        0,
    )


def test_action_that_another_alive_node_handles_is_left_for_it(conn: Connection) -> None:
    register(conn, "work")
    register(conn, "other", ago="80 s")
    send_a_while_ago(conn, "other")
    assert (unhandled(conn), waiting(conn)) == (0, [1])


def test_handlers_of_a_lost_node_do_not_count(conn: Connection) -> None:
    register(conn, "other", ago="100 s")
    send_a_while_ago(conn, "other")
    assert unhandled(conn) == 1


def test_handlers_of_a_node_that_stopped_a_moment_ago_still_count(conn: Connection) -> None:
    conn.execute("select headrace.deregister_node(%s)", (register(conn, "other"),))
    send_a_while_ago(conn, "other")
    assert unhandled(conn) == 0


def test_action_that_is_due_only_now_is_given_time(conn: Connection) -> None:
    register(conn, "work")
    send(conn, 1, action="other")
    assert unhandled(conn) == 0


def test_message_without_a_name_is_buried_as_unreadable(conn: Connection) -> None:
    conn.execute("""select pgmq.send('hr_default', '"hello"')""")
    conn.execute("update pgmq.q_hr_default set vt = now() - interval '1 minute'")
    assert unhandled(conn) == 1
    assert [letter.reason for letter in list_dead_letters(conn)] == ["unreadable"]
    assert redrive(conn) == 0, "what is no action is not sent again"
