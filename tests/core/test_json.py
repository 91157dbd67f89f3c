"""What `encode` accepts, PostgreSQL stores and every JSON reader reads; everything else is rejected with a reason."""

from __future__ import annotations

import json
import math
from collections import OrderedDict, UserDict
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import IntEnum
from uuid import UUID

import pytest
from hypothesis import given, strategies as st

from headrace.core import InvalidNumber, InvalidPayload, InvalidText, PayloadTooDeep, RawJSON, decode, encode
from headrace.core.json_text import fits_in_jsonb, jsonb_text_bytes
from headrace.db import Connection


def nested(levels: int) -> object:
    value: object = []
    for _ in range(levels - 1):
        value = [value]
    return value


class Text(str):
    pass


class Number(float):
    pass


class Choice(IntEnum):
    ONE = 1


@dataclass
class Point:
    x: int


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    # NUL and half a surrogate pair are rejected.
    | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), inner)
    ),
)


@given(values)
def test_encoded_value_is_read_back_unchanged(value: object) -> None:
    assert decode(encode(value)) == value
    assert json.loads(encode(value)) == value


@pytest.mark.parametrize(
    "bad",
    [
        math.nan,
        math.inf,
        -math.inf,
        Decimal("NaN"),
        Decimal("sNaN"),
        Decimal("-Infinity"),
        Decimal("1E+400"),
        Number("nan"),
        10**309,
        -(10**309),
        pytest.param(10**5000, id="5001 digits"),
        2**1024,
    ],
)
@pytest.mark.parametrize("within", [lambda value: value, lambda value: {"a": [None, value]}, lambda value: Point(value)])
def test_numbers_that_readers_reject_are_rejected(bad: object, within: object) -> None:
    with pytest.raises(InvalidNumber):
        encode(within(bad))


@pytest.mark.parametrize("bad", [b"1e400", b"-1e400", b'{"a": [1e309]}', b"1" + b"0" * 309, b"1" + b"0" * 5000])
@pytest.mark.parametrize("within", [RawJSON, lambda text: {"nested": RawJSON(text)}])
def test_raw_numbers_that_readers_reject_are_rejected(bad: bytes, within: object) -> None:
    with pytest.raises(InvalidNumber):
        encode(within(bad))


@pytest.mark.parametrize(
    "fine", [1.7976931348623157e308, int(1.7976931348623157e308), 2**64, -(2**70), 5e-324, -0.0, Decimal("0.1")]
)
def test_largest_and_smallest_numbers_pass(fine: object) -> None:
    assert decode(encode(fine)) == float(fine) or decode(encode(fine)) == fine


@pytest.mark.parametrize("text", ["a\0b", "\0", "\\\0", "\\\\\0"])
def test_nul_is_rejected_in_values_and_names(text: str) -> None:
    for value in (text, {text: 1}, [{"a": text}]):
        with pytest.raises(InvalidText, match="NUL"):
            encode(value)


@pytest.mark.parametrize("text", ["\\u0000", "\\\\u0000", "u0000"])
def test_text_that_only_looks_like_nul_passes(text: str) -> None:
    assert decode(encode({text: text})) == {text: text}


def test_raw_nul_is_rejected() -> None:
    with pytest.raises(InvalidText, match="NUL"):
        encode(RawJSON(rb'{"a": "\u0000"}'))
    assert encode(RawJSON(rb'{"a": "\\u0000"}')) == r'{"a": "\\u0000"}'


@pytest.mark.parametrize("value", ["\ud800", {"\udfff": 1}, ["a\ud83d"]])
def test_half_a_surrogate_pair_is_rejected(value: object) -> None:
    with pytest.raises(InvalidText, match="surrogate"):
        encode(value)


def test_raw_half_surrogate_and_bytes_beyond_utf8_are_rejected() -> None:
    with pytest.raises(InvalidPayload):
        encode(RawJSON(rb'"\ud800"'))
    with pytest.raises(InvalidText, match="UTF-8"):
        encode(RawJSON(b'"\xff"'))


@pytest.mark.parametrize(
    "shape",
    [
        lambda levels: nested(levels),
        lambda levels: {"a": nested(levels - 1)},
        lambda levels: RawJSON(b"[" * levels + b"]" * levels),
        lambda levels: RawJSON(b'{"a":' * levels + b"1" + b"}" * levels),
    ],
)
def test_128_levels_pass_and_129_do_not(shape: object) -> None:
    assert encode(shape(128))
    for levels in (129, 500, 5000):
        with pytest.raises(PayloadTooDeep):
            encode(shape(levels))


def test_many_brackets_side_by_side_are_not_deep() -> None:
    assert encode([[] for _ in range(1000)])
    assert encode("[" * 1000)


def test_value_that_contains_itself_is_rejected() -> None:
    loop: list[object] = []
    loop.append(loop)
    with pytest.raises(PayloadTooDeep, match="contains itself"):
        encode(loop)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Text("x"), '"x"'),
        (Number(1.5), "1.5"),
        (Choice.ONE, "1"),
        (OrderedDict(a=1), '{"a":1}'),
        (UserDict(a=1), '{"a":1}'),
        ((1, 2), "[1,2]"),
        (Point(1), '{"x":1}'),
        (Decimal("1.10"), "1.10"),
        (range(3), "[0,1,2]"),
        (UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
        (datetime(2026, 1, 2, tzinfo=UTC), '"2026-01-02T00:00:00Z"'),
    ],
)
def test_common_python_values_have_a_json_form(value: object, text: str) -> None:
    assert encode(value) == text


@pytest.mark.parametrize("text", [b"", b"{", b"NaN", b"Infinity", b"01", b"'a'", b"[1,]", b'"\x01"', b"1 2"])
def test_text_that_is_not_json_is_rejected(text: bytes) -> None:
    for value in (RawJSON(text), {"nested": RawJSON(text)}):
        with pytest.raises(InvalidPayload):
            encode(value)


def test_raw_text_keeps_every_digit() -> None:
    assert encode(RawJSON(b'{"a": 1.100, "b": 0.12345678901234567890}')) == '{"a": 1.100, "b": 0.12345678901234567890}'


def test_jsonb_text_bytes_are_those_of_postgresql(conn: Connection) -> None:
    for text in ["[1e300]", "[1,2]", '{"a":-0.0,"b":[1.50,1e5,1.5e-3]}', '"\\u00e4\\n\\u001f\\/"', '"ä😀"', "-0"]:
        assert conn.execute("select octet_length(%s::text::jsonb::text)", (text,)).fetchone() == (jsonb_text_bytes(text),)


@given(values)
def test_fits_in_jsonb_is_exact(value: object) -> None:
    text = encode(value)
    size = jsonb_text_bytes(text)
    assert fits_in_jsonb(text, size) and not fits_in_jsonb(text, size - 1)


def test_decoded_integers_are_exact() -> None:
    assert decode("12345678901234567890123") == 12345678901234567890123
