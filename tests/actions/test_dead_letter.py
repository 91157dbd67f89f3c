"""Dead letters of actions and events: list, get, group, edit, redrive, discard; and actions that no node handles."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID, uuid4

import pytest

from headrace.actions import (
    DeadLetterId,
    discard,
    edit_dead_letter,
    get_dead_letter,
    group_dead_letters,
    list_dead_letters,
    list_results,
    redrive,
    send_action,
)
from headrace.consume import Consumer, Failure, create_consumer
from headrace.core import Invalid, UnknownConsumer, UnknownDeadLetter, UnknownTopic
from headrace.db import Connection
from tests.actions.conftest import Bench, Picky, run_dry, send, waiting, write
from tests.builders import fill, topic

Effects = Callable[[], list[object]]


NO_HANDLER = (
    "no node of namespace default handles action other; run a node with a handler for it, then redrive; "
    "or correct the name where it is sent"
)


async def bury(conn: Connection, bench: Bench, *numbers: int) -> list[UUID]:
    """Actions that fail for good."""
    action_ids = [send_action(conn, "work", number, key=f"k{number}") for number in numbers]
    await run_dry(bench.worker(Picky(*numbers).handle, attempts=1))
    return action_ids


def bury_events(conn: Connection, *positions: int) -> None:
    """The consumer `orders/c`, which could not handle the events at these positions."""
    topic(conn)
    fill(conn, max(positions))
    consumer = Consumer(topic="orders", name="c", handler=lambda event, tx: None, failure=Failure.dead_letter())
    consumer_id = create_consumer(conn, consumer)
    for position in positions:
        error = f"{'ValueError' if position % 2 else 'KeyError'}: no {position}\nand more"
        conn.execute(
            """insert into headrace_internal.dead_letter
                   (consumer_id, partition, position, event_id, type, key, payload, headers, state, reason, error, attempts)
               select %s, l.partition, l.position, l.event_id, l.type, l.key, l.payload, l.headers, 'dead', 'handler failed', %s, 5
               from headrace.log l where l.position = %s""",
            (consumer_id, error, position),
        )


async def test_dead_letters_are_grouped_by_the_kind_of_their_error(conn: Connection, bench: Bench, effects: Effects) -> None:
    await bury(conn, bench, 1, 22, 333)
    send_a_while_ago(conn, "other")
    assert unhandled(conn) == 1
    bury_events(conn, 1, 2, 3)
    groups = [(group.source, group.name, group.error_group, group.dead, group.example_id) for group in group_dead_letters(conn)]
    assert groups == [
        ("queue", "work", "ValueError: cannot handle #", 3, "3"),
        ("queue", "other", NO_HANDLER, 1, "4"),
        ("orders/c", None, "ValueError: no #", 2, "orders/c/3"),
        ("orders/c", None, "KeyError: no #", 1, "orders/c/2"),
    ]
    assert len(list_dead_letters(conn, error="ValueError: cannot handle 7")) == 3
    assert len(list_dead_letters(conn, action="other")) == 1


async def test_redriven_action_is_handled_and_the_original_is_kept(conn: Connection, bench: Bench, effects: Effects) -> None:
    action_ids = await bury(conn, bench, 1, 2)
    first, second = list_dead_letters(conn)
    assert redrive(conn, [first.id]) == 1
    await run_dry(bench.worker(write))
    assert (effects(), [letter.id for letter in list_dead_letters(conn)]) == ([1], [second.id])
    original = get_dead_letter(conn, first.id)
    assert (original.original_id, original.payload, original.state) == (action_ids[0], 1, "redriven")
    assert original.redriven_at is not None
    assert [result.outcome for result in list_results(conn, action_ids[:1])] == ["dead", "done"]


async def test_edited_payload_is_what_a_redrive_sends(conn: Connection, bench: Bench, effects: Effects) -> None:
    await bury(conn, bench, 1)
    (letter,) = list_dead_letters(conn)
    edit_dead_letter(conn, letter.id, 42)
    edited = get_dead_letter(conn, letter.id)
    assert (edited.payload, edited.edited, edited.envelope) == (42, True, letter.envelope)
    redrive(conn)
    await run_dry(bench.worker(write))
    assert effects() == [42]
    assert get_dead_letter(conn, letter.id).envelope == letter.envelope


async def test_many_are_redriven_by_kind_of_error_and_start_with_fresh_attempts(
    conn: Connection, bench: Bench, effects: Effects
) -> None:
    await bury(conn, bench, 1, 2, 3)
    assert redrive(conn, action="nobody") == 0
    assert redrive(conn, error="ValueError: cannot handle 9") == 3
    assert conn.execute("select distinct read_ct from pgmq.q_hr_default").fetchall() == [(0,)]
    assert redrive(conn) == 0, "a redriven action is not redriven again"


async def test_discarded_actions_are_deleted(conn: Connection, bench: Bench, effects: Effects) -> None:
    await bury(conn, bench, 1, 2, 3)
    assert discard(conn, [list_dead_letters(conn)[0].id]) == 1
    assert discard(conn) == 2
    assert list_dead_letters(conn, ended=True) == []


async def test_one_api_serves_actions_and_events(conn: Connection, bench: Bench, effects: Effects) -> None:
    await bury(conn, bench, 1)
    bury_events(conn, 1, 2, 3)
    letters = [(letter.kind, letter.id, letter.source, letter.name, letter.payload) for letter in list_dead_letters(conn)]
    assert letters == [
        ("action", "1", "queue", "work", 1),
        ("event", "orders/c/1", "orders/c", "placed", 1),
        ("event", "orders/c/2", "orders/c", "placed", 2),
        ("event", "orders/c/3", "orders/c", "placed", 3),
    ]
    assert [letter.id for letter in list_dead_letters(conn, consumer="orders", limit=1)] == ["orders/c/1"]
    assert redrive(conn, ["1", "orders/c/2"]) == 2
    assert discard(conn, ["orders/c/3"]) == 1
    states = [(letter.id, letter.state) for letter in list_dead_letters(conn, ended=True)]
    assert states == [("1", "redriven"), ("orders/c/1", "dead"), ("orders/c/2", "redrive"), ("orders/c/3", "discarded")]
    assert redrive(conn, ["orders/c"]) == 1, "those of the consumer that are still dead"
    assert (redrive(conn, []), discard(conn, [])) == (0, 0), "no ids are no dead letters"


async def test_view_shows_dead_letters_of_both_kinds(conn: Connection, bench: Bench, effects: Effects) -> None:
    await bury(conn, bench, 1)
    bury_events(conn, 1)
    rows = conn.execute("select kind, source, name from headrace.dead_letter order by kind").fetchall()
    assert rows == [("action", "queue", "work"), ("event", "orders/c", "placed")]


def test_unknown_dead_letter_raises(conn: Connection) -> None:
    bury_events(conn, 1)
    for letter_id in ("77", "orders/c/77"):
        with pytest.raises(UnknownDeadLetter, match=f"no dead letter {letter_id}"):
            get_dead_letter(conn, letter_id)
    with pytest.raises(UnknownDeadLetter, match="no dead letter 77"):
        edit_dead_letter(conn, "77", 1)
    with pytest.raises(UnknownConsumer):
        list_dead_letters(conn, consumer="orders/nobody")
    with pytest.raises(UnknownTopic):
        list_dead_letters(conn, consumer="nowhere")


@pytest.mark.lane("pg18")
def test_event_can_be_neither_edited_nor_fetched_without_its_position(conn: Connection) -> None:
    with pytest.raises(Invalid, match="add the position"):
        edit_dead_letter(conn, "orders/c", 1)
    with pytest.raises(Invalid, match="add the position"):
        get_dead_letter(conn, "orders/c")


@pytest.mark.parametrize("text", ["", "orders", "orders/c/x", "a/b/c/d", "/c", "orders/", "-1", "١"])
def test_id_that_names_no_dead_letter_is_rejected(text: str) -> None:
    with pytest.raises(Invalid, match="is not the id of a dead letter"):
        DeadLetterId.parse(text)


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
    (count,) = conn.execute("select headrace.bury_unhandled(10)").fetchone() or (0,)
    return int(count)


def test_action_that_no_alive_node_handles_is_buried_with_the_reason(conn: Connection) -> None:
    register(conn, "work")
    send_a_while_ago(conn, "other")
    assert unhandled(conn) == 1
    (letter,) = list_dead_letters(conn)
    assert (letter.reason, letter.error, letter.attempts) == (
        "no_handler",
        NO_HANDLER,
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
    assert redrive(conn) == 0, "a message that is not an action is not sent again"
