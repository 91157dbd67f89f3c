"""What becomes of Python's values in a payload, and how a value without a JSON form is refused: its path, its type, what to do."""

from __future__ import annotations

import ipaddress
from collections import deque, namedtuple
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntFlag, StrEnum
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import attrs
import msgspec
import numpy
import pandas
import pydantic
import pytest
from asyncpg.pgproto import pgproto

from headrace.actions import send_action
from headrace.core import Event, InvalidHeaders, InvalidNumber, InvalidPayload, InvalidText, RawJSON, encode, validate_event
from headrace.db import Connection
from headrace.log.outbox import publish, publish_many

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
ID = UUID("0198c0de-0000-7000-8000-000000000001")


class Size(Enum):
    SMALL = "s"
    PRICE = Decimal("1.10")
    NAIVE = datetime(2026, 1, 1)


class Color(StrEnum):
    RED = "red"


class Right(IntFlag):
    READ = 1
    WRITE = 2


@dataclass
class Line:
    sku: str
    price: Decimal
    _shelf: int = 3


@dataclass
class Note:
    text: str
    read_at: datetime = field(init=False)


@attrs.define
class Box:
    width: int
    _secret: int = 2


class Point(msgspec.Struct, rename="camel"):
    left_x: int
    at: datetime | msgspec.UnsetType = msgspec.UNSET


class Order(pydantic.BaseModel):
    id: UUID
    total: Decimal
    placed_at: datetime = NOON
    lines: list[Line] = []
    hidden: int = pydantic.Field(1, exclude=True)
    site: pydantic.HttpUrl | None = None

    @pydantic.computed_field
    def is_large(self) -> bool:
        return self.total > 100


class Tags(pydantic.RootModel[list[str]]):
    pass


class Account(pydantic.BaseModel):
    password: pydantic.SecretStr


class Broken(pydantic.BaseModel):
    n: int

    @pydantic.field_serializer("n")
    def fail(self, n: int) -> int:
        raise ValueError("no number today")


class PreciseTime(datetime):
    pass


Pair = namedtuple("Pair", "a b")

# The table of docs/publish.md, and what stands between its lines.
FORMS: list[tuple[object, str]] = [
    (Decimal("12345678901234567890.1234567890"), "12345678901234567890.1234567890"),
    (Decimal("1E+5"), "1E+5"),
    (NOON, '"2026-01-31T12:00:00Z"'),
    (NOON.replace(microsecond=1), '"2026-01-31T12:00:00.000001Z"'),
    (NOON.astimezone(ZoneInfo("Europe/Berlin")), '"2026-01-31T13:00:00+01:00"'),
    (PreciseTime(2026, 1, 31, 12, tzinfo=UTC), '"2026-01-31T12:00:00+00:00"'),
    (pandas.Timestamp("2026-01-31T12:00:00.123456789Z"), '"2026-01-31T12:00:00.123456789+00:00"'),
    (date(2026, 1, 31), '"2026-01-31"'),
    (time(12, 30), '"12:30:00"'),
    (time(12, 30, tzinfo=UTC), '"12:30:00Z"'),
    (timedelta(days=1, seconds=1.5), '"P1DT1.5S"'),
    (ID, f'"{ID}"'),
    (pgproto.UUID(str(ID)), f'"{ID}"'),
    (Size.SMALL, '"s"'),
    (Size.PRICE, "1.10"),
    (Color.RED, '"red"'),
    (Right.READ | Right.WRITE, "3"),
    ({"data": b"\x00\xff"}, '{"data":"AP8="}'),
    (frozenset({1}), "[1]"),
    (deque([1, 2]), "[1,2]"),
    (Pair(1, 2), "[1,2]"),
    (PurePosixPath("/a/b"), '"/a/b"'),
    (ipaddress.ip_address("::1"), '"::1"'),
    (Line("x", Decimal("0.10")), '{"sku":"x","price":0.10,"_shelf":3}'),
    (Note("a"), '{"text":"a"}'),
    (Box(4), '{"width":4}'),
    (Point(1), '{"leftX":1}'),
    (numpy.float64(1.5), "1.5"),
    ({1: "a", ID: "b", Color.RED: "c", date(2026, 1, 31): "d"}, f'{{"1":"a","{ID}":"b","red":"c","2026-01-31":"d"}}'),
    (Tags(["a"]), '["a"]'),
    (
        Order(id=ID, total=Decimal("19.90"), lines=[Line("x", Decimal("0.10"))], site="https://shop.example/a"),
        f'{{"id":"{ID}","total":19.90,"placed_at":"2026-01-31T12:00:00Z","lines":[{{"sku":"x","price":0.10,"_shelf":3}}],'
        '"site":"https://shop.example/a","is_large":false}',
    ),
]


@pytest.mark.parametrize(("value", "text"), FORMS, ids=lambda value: type(value).__name__)
def test_value_has_its_json_form_at_every_depth(value: object, text: str) -> None:
    assert encode(value) == text
    assert encode({"a": [value]}) == f'{{"a":[{text}]}}'


def test_forms_are_stored_by_every_way_in_with_all_digits(conn: Connection) -> None:
    conn.execute("select headrace.create_topic('orders')")
    order = Order(id=ID, total=Decimal("12345678901234567890.1234567890"))
    publish(conn, "orders", "a", order)
    publish_many(conn, [Event(topic="orders", type="a", payload=order)])
    send_action(conn, "pay", order)
    rows = conn.execute("select payload ->> 'total', (payload ->> 'placed_at')::timestamptz from headrace.outbox").fetchall()
    assert rows == [("12345678901234567890.1234567890", NOON)] * 2
    queued = conn.execute("select message #>> '{payload,total}' from pgmq.q_hr_default").fetchall()
    assert queued == [("12345678901234567890.1234567890",)]


def test_postgresql_reads_times_and_durations_back(conn: Connection) -> None:
    for value, cast in ((NOON, "timestamptz"), (date(2026, 1, 31), "date"), (timedelta(days=2, seconds=1.5), "interval")):
        assert conn.execute(f"select (%s::jsonb #>> '{{}}')::{cast}", [encode(value)]).fetchone() == (value,)


SOMETHING = object()
REFUSED: list[tuple[object, str]] = [
    (SOMETHING, r"payload is of type object, which has no JSON form; convert it"),
    ({"items": [1, 2, {"price": 1j}]}, r"payload\.items\[2\]\.price is of type complex, which"),
    ({"a b": {"x": SOMETHING}}, r"payload\['a b'\]\.x is of type object"),
    ([Line("x", SOMETHING)], r"payload\[0\]\.price is of type object"),
    (Box(SOMETHING), r"payload\.width is of type object"),
    (Point(SOMETHING), r"payload\.leftX is of type object"),
    ({"rows": (n for n in ())}, r"payload\.rows is of type generator, .* use list"),
    (Line, r"payload is of type type, .* publish an instance, not the class"),
    ({"n": numpy.int64(1)}, r"payload\.n is of type numpy\.int64, .* use tolist\(\)"),
    ({"n": numpy.array([1])}, r"payload\.n is of type numpy\.ndarray, .* use tolist\(\)"),
    ({"at": pandas.NaT}, r"payload\.at is of type .*NaTType, .* publish None"),
    (Account(password="x"), r"payload\.password is of type pydantic.*SecretStr, .* get_secret_value"),
    ({"o": {None: 1}}, r"payload\.o has a member name of type NoneType; use text"),
    ({(1, 2): 3}, r"payload has a member name of type tuple; use text"),
    ({Decimal("1.0"): 3}, r"payload has a member name of type decimal\.Decimal; use text"),
    (b'{"id": 1}', r"payload is bytes; use RawJSON"),
    (Broken(n=1), r"payload cannot be converted to JSON: .*no number today"),
    ({"at": datetime(2026, 1, 1)}, r"payload\.at is a datetime without a time zone; use datetime\.now\(UTC\)"),
    ({"at": [PreciseTime(2026, 1, 1, 1, 2, 3, 4)]}, r"payload\.at\[0\] is a datetime without a time zone"),
    ({"size": Size.NAIVE}, r"payload\.size is a datetime without a time zone"),
    ({datetime(2026, 1, 1): 1}, r"a member name of payload is a datetime without a time zone"),
    (Order(id=ID, total=Decimal(1), placed_at=datetime(2026, 1, 1)), r"payload\.placed_at is a datetime without a time zone"),
    (
        {"at": datetime(2026, 1, 1, tzinfo=timezone(timedelta(minutes=19, seconds=32)))},
        r"payload\.at is a datetime with the UTC offset 0:19:32, .* astimezone\(UTC\)",
    ),
]


@pytest.mark.parametrize(("value", "reason"), REFUSED, ids=[reason for _, reason in REFUSED])
def test_refused_value_is_named_with_its_path_and_what_to_do(value: object, reason: str) -> None:
    with pytest.raises(InvalidPayload, match=f"^{reason}"):
        encode(value)


@pytest.mark.parametrize(
    "bad", [float("nan"), numpy.float64("inf"), Decimal("NaN"), 10**400], ids=["nan", "inf", "decimal", "401 digits"]
)
def test_refused_number_is_named_with_its_path(bad: object) -> None:
    with pytest.raises(InvalidNumber, match=r"^payload\.lines\[1\]\.price is a number that is not finite .* publish None"):
        encode({"lines": [None, Line("x", bad)]})


@pytest.mark.parametrize(
    ("bad", "reason"), [("a\0b", "NUL"), ("a\ud800", "half a surrogate pair at character 1")], ids=["nul", "half"]
)
def test_refused_text_is_named_with_its_path(bad: str, reason: str) -> None:
    with pytest.raises(InvalidText, match=rf"^payload\.notes\[1\] has .*{reason}"):
        encode({"notes": ["fine", bad]})
    with pytest.raises(InvalidText, match=rf"^a member name of payload\.notes has .*{reason}"):
        encode({"notes": {bad: 1}})


def test_refused_header_is_named_as_a_header() -> None:
    with pytest.raises(InvalidHeaders, match=r"^headers\.trace is of type object"):
        validate_event(Event(topic="orders", type="a", headers={"trace": SOMETHING}))


@pytest.mark.parametrize("text", ["2026-01-01T00:00:00", "2026-01-01T00:00:00+01:00", "T12:30:00-"])
def test_text_that_looks_like_a_time_is_text(text: str) -> None:
    assert encode({"at": text, text: [text]}) == f'{{"at":"{text}","{text}":["{text}"]}}'


def test_value_that_contains_itself_is_searched_once() -> None:
    loop: dict[str, Any] = {"bad": SOMETHING}
    loop |= {"again": loop, "more": [loop, loop]}
    with pytest.raises(InvalidPayload, match=r"payload\.bad is of type object"):
        encode(loop)


def test_long_names_are_cut_in_the_path() -> None:
    with pytest.raises(InvalidPayload) as error:
        encode({"x" * 100_000: SOMETHING})
    assert len(str(error.value)) < 200


@pytest.mark.parametrize("exponent", [-16383, -16384, -99999])
def test_decimal_with_more_digits_than_postgresql_stores_is_refused(conn: Connection, exponent: int) -> None:
    value = Decimal(1).scaleb(exponent)
    if exponent == -16383:
        assert conn.execute("select %s::jsonb::numeric", [encode(value)]).fetchone() == (value,)
        return
    with pytest.raises(InvalidNumber, match="more than 16383 digits"):
        encode({"a": value})


def test_raw_json_is_kept_inside_other_values() -> None:
    assert encode({"a": RawJSON(b'{"b": 1.10}')}) == '{"a":{"b": 1.10}}'
