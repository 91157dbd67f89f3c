"""Changes of a user's own table become events, in the transaction that makes them."""

from __future__ import annotations

import psycopg
import pytest

from headrace.core import HeadraceError, Invalid, InvalidEventType, NotFound, PayloadTooLarge, TopicInUse, UnknownTopic
from headrace.db import Connection, Target, connect, grant_namespace, map_database_errors
from headrace.log.outbox import capture, release_capture
from tests.builders import notifications


@pytest.fixture
def shop(conn: Connection) -> Connection:
    """A topic and a table of orders."""
    conn.execute("select headrace.create_topic('orders')")
    conn.execute("create table orders (id int primary key, status text, total numeric, kind text)")
    return conn


def captured(conn: Connection) -> list[tuple[object, ...]]:
    """Type, key and payload of the events in the outbox, which is emptied."""
    rows = conn.execute("select type, key, payload from headrace.outbox order by id").fetchall()
    conn.execute("delete from headrace_internal.outbox")
    return rows


def row(id: int, status: str = "new", **more: object) -> dict[str, object]:
    return {"id": id, "status": status, "total": None, "kind": None, **more}


def test_insert_update_and_delete_become_events(shop: Connection) -> None:
    capture(shop, "orders", "orders")
    shop.execute("insert into orders values (1, 'new', 9.50)")
    shop.execute("update orders set status = 'paid'")
    shop.execute("delete from orders")
    assert captured(shop) == [
        ("orders.inserted", "1", row(1, total=9.5)),
        ("orders.updated", "1", row(1, "paid", total=9.5, _old={"status": "new"})),
        ("orders.deleted", "1", row(1, "paid", total=9.5)),
    ]


def test_headers_name_table_and_operation(shop: Connection) -> None:
    capture(shop, "orders", "orders")
    shop.execute("insert into orders values (1)")
    headers = shop.execute("select headers from headrace.outbox").fetchone()
    assert headers == ({"table": "public.orders", "operation": "insert"},)


def test_types_are_given_per_operation(shop: Connection) -> None:
    capture(shop, "orders", "orders", insert_type="order.placed", update_type="order.changed", delete_type="order.withdrawn")
    shop.execute("insert into orders values (1, 'new')")
    shop.execute("update orders set status = 'paid'")
    shop.execute("delete from orders")
    assert [type for type, _, _ in captured(shop)] == ["order.placed", "order.changed", "order.withdrawn"]


def test_type_comes_from_a_column_of_the_row(shop: Connection) -> None:
    capture(shop, "orders", "orders", type_column="kind")
    shop.execute("insert into orders values (1, 'new', null, 'order.placed')")
    shop.execute("update orders set kind = 'order.paid'")
    shop.execute("delete from orders")
    assert [type for type, _, _ in captured(shop)] == ["order.placed", "order.paid", "order.paid"]


@pytest.mark.parametrize("kind", ["not  a name", "", None, "x" * 201])
def test_invalid_type_fails_the_writers_statement(shop: Connection, kind: str | None) -> None:
    capture(shop, "orders", "orders", type_column="kind")
    with pytest.raises(InvalidEventType, match="event type"), map_database_errors():
        shop.execute("insert into orders values (1, 'new', null, 'fine'), (2, 'new', null, %s)", [kind])
    assert shop.execute("select count(*) from orders").fetchone() == (0,)
    assert captured(shop) == []


def test_rows_of_one_statement_keep_their_order(shop: Connection) -> None:
    capture(shop, "orders", "orders")
    shop.execute("insert into orders select n from generate_series(500, 1, -1) n")
    assert [key for _, key, _ in captured(shop)] == [str(n) for n in range(500, 0, -1)]


def test_copy_is_captured_in_its_order(shop: Connection) -> None:
    capture(shop, "orders", "orders")
    with shop.cursor().copy("copy orders (id) from stdin") as copy:
        for n in (3, 1, 2):
            copy.write_row((n,))
    assert [key for _, key, _ in captured(shop)] == ["3", "1", "2"]


def test_upsert_is_an_insert_or_an_update(shop: Connection) -> None:
    shop.execute("insert into orders values (1, 'new')")
    capture(shop, "orders", "orders")
    shop.execute("insert into orders values (1, 'again'), (2, 'again') on conflict (id) do update set status = excluded.status")
    assert sorted(captured(shop), key=str) == [
        ("orders.inserted", "2", row(2, "again")),
        ("orders.updated", "1", row(1, "again", _old={"status": "new"})),
    ]


def test_update_pairs_old_and_new_when_the_primary_key_changes(shop: Connection) -> None:
    shop.execute("insert into orders select n, 's' || n from generate_series(1, 20) n")
    capture(shop, "orders", "orders")
    shop.execute("update orders set id = id + 1000")
    assert [(p["id"], p["status"], p["_old"]) for _, _, p in captured(shop)] == [
        (n + 1000, f"s{n}", {"id": n}) for n in range(1, 21)
    ]


def test_update_pairs_old_and_new_across_partitions(shop: Connection) -> None:
    shop.execute("create table sale (id int, region text, n int, primary key (id, region)) partition by list (region)")
    shop.execute("create table sale_a partition of sale for values in ('a')")
    shop.execute("create table sale_b partition of sale for values in ('b')")
    shop.execute("insert into sale select n, case when n %% 3 = 0 then 'b' else 'a' end, n from generate_series(1, 30) n", [])
    capture(shop, "sale", "orders")
    shop.execute("update sale set region = case region when 'a' then 'b' else region end, n = n * 10")
    events = captured(shop)
    assert len(events) == 30
    assert all(payload["_old"]["n"] * 10 == payload["n"] == payload["id"] * 10 for _, _, payload in events)
    assert events[0][1] == f'[{events[0][2]["id"]}, "b"]'


def test_update_that_changes_no_captured_column_is_no_event(shop: Connection) -> None:
    shop.execute("insert into orders values (1, 'new', 5), (2, 'new', 6)")
    capture(shop, "orders", "orders", columns=["id", "status"])
    shop.execute("update orders set total = 7")
    shop.execute("update orders set status = status")
    assert captured(shop) == []
    shop.execute("update orders set status = 'paid', total = 8 where id = 2")
    assert captured(shop) == [("orders.updated", "2", {"id": 2, "status": "paid", "_old": {"status": "new"}})]


def test_only_chosen_operations_are_captured(shop: Connection) -> None:
    capture(shop, "orders", "orders", operations=["delete"])
    shop.execute("insert into orders values (1, 'new')")
    shop.execute("update orders set status = 'paid'")
    shop.execute("delete from orders")
    assert [type for type, _, _ in captured(shop)] == ["orders.deleted"]


def test_key_comes_from_the_column_given(shop: Connection) -> None:
    capture(shop, "orders", "orders", key_column="status")
    shop.execute("insert into orders values (1, 'new'), (2, null)")
    assert [key for _, key, _ in captured(shop)] == ["new", None]


def test_table_without_primary_key_has_events_without_key(shop: Connection) -> None:
    shop.execute("create table note (text text)")
    capture(shop, "note", "orders")
    shop.execute("insert into note values ('a')")
    shop.execute("update note set text = 'b'")
    assert captured(shop) == [
        ("note.inserted", None, {"text": "a"}),
        ("note.updated", None, {"text": "b", "_old": {"text": "a"}}),
    ]


def test_rolled_back_statement_leaves_nothing(shop: Connection) -> None:
    capture(shop, "orders", "orders")
    with shop.transaction(force_rollback=True):
        shop.execute("insert into orders values (1)")
        with pytest.raises(psycopg.errors.UniqueViolation), shop.transaction():
            shop.execute("insert into orders values (2), (1)")
        assert len(shop.execute("select from headrace.outbox").fetchall()) == 1
    assert captured(shop) == []


def test_row_over_the_limit_fails_the_writers_statement(shop: Connection) -> None:
    capture(shop, "orders", "orders")
    with pytest.raises(PayloadTooLarge), map_database_errors():
        shop.execute("insert into orders values (1, repeat('x', 1048576))")
    assert shop.execute("select count(*) from orders").fetchone() == (0,)


def test_truncate_is_not_captured(shop: Connection) -> None:
    shop.execute("insert into orders values (1)")
    capture(shop, "orders", "orders")
    shop.execute("truncate orders")
    assert captured(shop) == []


def test_column_added_later_is_in_the_payload(shop: Connection) -> None:
    capture(shop, "orders", "orders")
    shop.execute("insert into orders values (1)")
    shop.execute("alter table orders add column note text default 'none'")
    shop.execute("insert into orders values (2)")
    shop.execute("alter table orders drop column total")
    shop.execute("update orders set note = 'some' where id = 2")
    assert [payload.get("note") for _, _, payload in captured(shop)] == [None, "none", "some"]


def test_writer_gets_an_error_if_the_key_column_was_renamed(shop: Connection) -> None:
    capture(shop, "orders", "orders")
    shop.execute("alter table orders rename column id to number")
    with (
        pytest.raises(Invalid, match=r"captured by columns it no longer has; call headrace.capture again"),
        map_database_errors(),
    ):
        shop.execute("insert into orders values (1)")
    capture(shop, "orders", "orders")
    shop.execute("insert into orders values (1)")
    assert [key for _, key, _ in captured(shop)] == ["1"]


def test_capturing_again_replaces(shop: Connection) -> None:
    capture(shop, "orders", "orders")
    capture(shop, "orders", "orders", insert_type="order.placed", operations=["insert"])
    shop.execute("insert into orders values (1)")
    shop.execute("delete from orders")
    assert [type for type, _, _ in captured(shop)] == ["order.placed"]
    assert shop.execute("select captured::text, insert_type from headrace.capture").fetchall() == [("orders", "order.placed")]


def test_table_goes_to_several_topics(shop: Connection) -> None:
    shop.execute("select headrace.create_topic('audit')")
    capture(shop, "orders", "orders")
    capture(shop, "orders", "audit", operations=["insert"])
    shop.execute("insert into orders values (1)")
    assert len(captured(shop)) == 2
    release_capture(shop, "orders", "audit")
    shop.execute("insert into orders values (2)")
    assert len(captured(shop)) == 1


def test_released_table_is_not_captured(shop: Connection) -> None:
    capture(shop, "orders", "orders")
    release_capture(shop, "orders")
    shop.execute("insert into orders values (1)")
    assert captured(shop) == []
    assert shop.execute("select tgname from pg_trigger where not tgisinternal and tgrelid = 'orders'::regclass").fetchall() == []
    with pytest.raises(NotFound, match=r"table public\.orders is not captured"):
        release_capture(shop, "orders")


def test_odd_names_are_quoted(shop: Connection) -> None:
    shop.execute('create schema "My Shop"; create table "My Shop"."Order ""Line""" ("The Id" int primary key)')
    table = '"My Shop"."Order ""Line"""'
    with pytest.raises(InvalidEventType, match="is not a name"):
        capture(shop, table, "orders")
    capture(shop, table, "orders", insert_type="a", update_type="b", delete_type="c")
    shop.execute(f"insert into {table} values (1)")
    assert captured(shop) == [("a", "1", {"The Id": 1})]
    release_capture(shop, table)


def test_topic_with_captured_tables_is_dropped_only_by_force(shop: Connection) -> None:
    capture(shop, "orders", "orders")
    with pytest.raises(TopicInUse, match='captured into topic "orders": orders; release them first'), map_database_errors():
        shop.execute("select headrace.drop_topic('orders')")
    shop.execute("select headrace.drop_topic('orders', p_force => true)")
    shop.execute("insert into orders values (1)")
    assert shop.execute("select count(*) from headrace.capture").fetchone() == (0,)


@pytest.mark.parametrize(
    ("options", "error", "reason"),
    [
        ({"table": "nothing"}, HeadraceError, "nothing"),
        ({"topic": "nothing"}, UnknownTopic, "no topic"),
        ({"key_column": "nr"}, Invalid, r'table public.orders has no column "nr"; its columns are id, status, total, kind'),
        ({"type_column": "nr"}, Invalid, "no column"),
        ({"columns": ["id", "nr"]}, Invalid, "no column"),
        ({"operations": ["truncate"]}, Invalid, "cannot be captured"),
        ({"operations": []}, Invalid, "cannot be captured"),
        ({"insert_type": "a  b"}, InvalidEventType, "a  b"),
    ],
)
def test_invalid_capture_is_rejected(shop: Connection, options: dict[str, object], error: type[Exception], reason: str) -> None:
    with pytest.raises(error, match=reason):
        capture(shop, **{"table": "orders", "topic": "orders", **options})
    assert shop.execute("select count(*) from headrace.capture").fetchone() == (0,)


def test_column_named_old_is_rejected(shop: Connection) -> None:
    shop.execute("create table t (id int primary key, _old int)")
    with pytest.raises(Invalid, match="_old"):
        capture(shop, "t", "orders")
    capture(shop, "t", "orders", columns=["id"])


def test_writer_with_the_rights_to_publish_is_captured(shop: Connection, database: Target) -> None:
    capture(shop, "orders", "orders")
    shop.execute("create role writer; grant insert on orders to writer")
    grant_namespace(shop, "writer", "default", "publish")
    with connect(database) as session:
        session.execute("set role writer")
        session.execute("insert into orders values (1)")
    assert len(captured(shop)) == 1
    shop.execute("drop owned by writer; drop role writer")


def test_captured_events_reach_the_log(shop: Connection, second: Connection) -> None:
    capture(shop, "orders", "orders")
    second.execute("listen headrace_outbox")
    shop.execute("insert into orders select n from generate_series(1, 100) n")
    assert notifications(second, shop) == 1
    shop.execute("select headrace.sequence()")
    assert shop.execute("select count(*), max(position) from headrace.log").fetchone() == (100, 100)
