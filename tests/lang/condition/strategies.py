"""Random conditions and events, drawn from the corners: bounds, halves, wrong kinds, unicode, look-alikes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from hypothesis import strategies as st

from headrace.lang.condition import Field, Json, Node, Sample, Type
from headrace.lang.condition.tree import (
    Arithmetic,
    Between,
    Call,
    Cast,
    Compare,
    Constant,
    Extraction,
    In,
    Is,
    Junction,
    KeyOrIndex,
    Like,
    Match,
    Negate,
    Not,
)

KEYS = ["a", "b", "a b", "0", "ü", "it's", '"', "\\", ""]
INTEGERS = [0, 1, -1, 2, 3, 7, 10, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**63 - 1, -(2**63) + 1]
DECIMALS = ["0.5", "-0.5", "1.10", "2.5", "0.1", "0.000001", "0.0000005", "1e18", "9999999999999999999.99", "1e-18", "84.04"]
WIDE = ["1e19", "1e400", "1e-400", "-1e40", "0." + "4" + "9" * 45, "123456789012345678901234567890.5", "-9223372036854775808"]
TEXTS = [
    "", "a", "A", "ab", "abc", "É", "é", "😀", "ß", "5", "-5", "+5", " 5", "5.0", "1e3", "0007", "12.6", "true", "False", "yes",
    "on", "NaN", "null", "{", "[1]", '{"b": 1}', "a\nb", "a%b", "a_b", "\\", "'", '"', "$1", "2026-01-01T00:00:00Z",
    "2026-02-29T00:00:00Z", "2024-02-29 23:59:59.123456789+05:30", "9223372036854775808", "x" * 1001, "\x1f\x7f\u2028", "٥",
]  # fmt: skip
PATTERNS = ["a", "^a", "b$", "^a.c$", "[a-c]+", "[^a]", r"\d", r"^\w*$", r"\s", "a|b", "^(a|é)?b", "x{2,3}", "^$", r"\.", "😀"]
LIKES = ["a%", "%b", "%", "_", "a_c", r"a\%b", "%b%", "", "é%", "%a%b%", r"\\"]
MOMENTS = [0, 1, -1, 1_767_225_600_000_000, 951_868_799_123_456]

numbers = st.one_of(
    st.sampled_from(INTEGERS),
    st.sampled_from(DECIMALS + WIDE).map(Decimal),
    st.integers(-(10**6), 10**6),
    st.decimals(-1000, 1000, places=3),
)
texts = st.one_of(st.sampled_from(TEXTS), st.text("aAbéÉ😀 %_\\'\"\n0", max_size=5))
scalars: st.SearchStrategy[Json] = st.one_of(st.none(), st.booleans(), numbers, texts)
documents: st.SearchStrategy[Json] = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)),
    max_leaves=8,
)
objects = st.dictionaries(st.sampled_from(KEYS), documents, max_size=6)
events = st.builds(
    Sample,
    st.one_of(objects, objects, objects, documents),
    type=st.sampled_from(["", "order.placed"]),
    key=st.one_of(st.none(), texts),
    headers=objects,
    emitted_at=st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)).map(lambda moment: moment.replace(tzinfo=UTC)),
)

steps = st.one_of(
    st.sampled_from(KEYS),
    st.sampled_from(KEYS),
    st.sampled_from([0, 1, -1, -2]),
    st.builds(KeyOrIndex, st.sampled_from([0, 1, -1])),
)
_EXTRACTIONS = {
    Type.TEXT: [Extraction.TEXT, Extraction.TEXT, Extraction.TYPEOF],
    Type.INTEGER: [Extraction.INT, Extraction.BIGINT, Extraction.TEXT_INT, Extraction.TEXT_BIGINT, Extraction.ARRAY_LENGTH],
    Type.NUMERIC: [Extraction.NUMERIC, Extraction.TEXT_NUMERIC],
    Type.BOOLEAN: [Extraction.BOOLEAN, Extraction.TEXT_BOOLEAN, Extraction.HAS_KEY],
    Type.TIMESTAMPTZ: [Extraction.TEXT_TIMESTAMPTZ],
}


@st.composite
def fields(draw: st.DrawFn, kind: Type) -> Field:
    if kind is Type.TIMESTAMPTZ and draw(st.booleans()):
        return Field("emitted_at", (), Extraction.COLUMN)
    extraction = draw(st.sampled_from(_EXTRACTIONS[kind]))
    if (extraction is Extraction.TEXT or extraction.is_from_text) and draw(st.integers(0, 5)) == 0:
        return Field(draw(st.sampled_from(["key", "type"])), (), extraction)
    path = tuple(draw(st.lists(steps, min_size=draw(st.sampled_from([0, 1, 1])), max_size=2)))
    return Field(
        draw(st.sampled_from(["object", "object", "headers"])),
        path,
        extraction,
        draw(texts) if extraction is Extraction.HAS_KEY else None,
    )


def constants(kind: Type) -> st.SearchStrategy[Node]:
    values: dict[Type, st.SearchStrategy[object]] = {
        Type.TEXT: texts,
        Type.INTEGER: st.one_of(st.sampled_from([n for n in INTEGERS if abs(n) < 2**63]), st.integers(-20, 20)),
        Type.NUMERIC: st.one_of(st.sampled_from(DECIMALS).map(Decimal), st.decimals(-1000, 1000, places=2)).map(_normal),
        Type.BOOLEAN: st.booleans(),
        Type.TIMESTAMPTZ: st.sampled_from(MOMENTS),
    }
    return values[kind].map(lambda value: Constant(value, kind))  # type: ignore[arg-type]


def _normal(value: Decimal) -> Decimal:
    return Decimal(0) if value == 0 else value


def leaves(kind: Type) -> st.SearchStrategy[Node]:
    return st.one_of(fields(kind), fields(kind), constants(kind))


@st.composite
def expressions(draw: st.DrawFn, kind: Type, depth: int) -> Node:
    if depth == 0 or draw(st.integers(0, 2)) == 0:
        return draw(leaves(kind))
    inner = depth - 1
    if kind is Type.BOOLEAN:
        return draw(clauses(inner))
    if kind is Type.TEXT:
        name = draw(st.sampled_from(["lower", "upper", "coalesce"]))
        count = 2 if name == "coalesce" else 1
        return Call(name, tuple(draw(expressions(kind, inner)) for _ in range(count)), kind)
    if kind is Type.TIMESTAMPTZ:
        return Call("coalesce", (draw(fields(kind)), draw(leaves(kind))), kind)
    return draw(arithmetics(kind, inner))


@st.composite
def arithmetics(draw: st.DrawFn, kind: Type, depth: int) -> Node:
    shape = draw(st.sampled_from(["sum", "sum", "sum", "minus", "abs", "cast", "length"]))
    operand = draw(expressions(kind, depth))
    if shape == "minus" and not isinstance(operand, Constant):
        return Negate(operand)
    if shape == "abs":
        return Call("abs", (operand,), kind)
    if shape == "cast":
        other = draw(expressions(draw(st.sampled_from([Type.INTEGER, Type.NUMERIC])), depth))
        to = Extraction.NUMERIC if kind is Type.NUMERIC else draw(st.sampled_from([Extraction.INT, Extraction.BIGINT]))
        return other if kind is Type.NUMERIC and other.type is kind else Cast(other, to)
    if shape == "length" and kind is Type.INTEGER:
        return Call("length", (draw(expressions(Type.TEXT, depth)),), kind)
    other_kind = kind if kind is Type.INTEGER else draw(st.sampled_from([Type.INTEGER, Type.NUMERIC]))
    other = draw(expressions(other_kind, depth))
    if kind is Type.INTEGER and draw(st.integers(0, 4)) == 0:
        return Call("div", (operand, other), kind)
    return Arithmetic(draw(st.sampled_from("+-*/%")), operand, other)


@st.composite
def clauses(draw: st.DrawFn, depth: int) -> Node:
    shape = draw(st.sampled_from(["compare", "compare", "compare", "in", "between", "like", "match", "is", "not", "and", "or"]))
    if shape in ("and", "or"):
        operands: list[Node] = []
        for _ in range(2):
            part = draw(expressions(Type.BOOLEAN, depth))
            operands.extend(part.operands if isinstance(part, Junction) and part.word == shape else (part,))
        return Junction(shape, tuple(operands))
    if shape == "not":
        return Not(draw(expressions(Type.BOOLEAN, depth)))
    if shape == "is":
        answer = draw(st.sampled_from([None, True, False]))
        kind = Type.BOOLEAN if answer is not None else draw(st.sampled_from(Type))
        return Is(draw(expressions(kind, depth)), answer)
    if shape == "like":
        return Like(draw(expressions(Type.TEXT, depth)), draw(st.sampled_from(LIKES)), draw(st.booleans()))
    if shape == "match":
        return Match(draw(expressions(Type.TEXT, depth)), draw(st.sampled_from(PATTERNS)))
    return draw(comparisons(shape, depth))


@st.composite
def comparisons(draw: st.DrawFn, shape: str, depth: int) -> Node:
    kind = draw(st.sampled_from([Type.TEXT, Type.INTEGER, Type.NUMERIC, Type.TIMESTAMPTZ, Type.BOOLEAN]))
    if kind is Type.BOOLEAN:
        shape = "in" if shape == "in" else "compare"
    kinds = [Type.INTEGER, Type.NUMERIC] if kind.is_number else [kind]
    operands = [draw(expressions(draw(st.sampled_from(kinds)), depth)) for _ in range(3)]
    if shape == "in":
        return In(operands[0], tuple(operands[1:]))
    if shape == "between":
        return Between(*operands)
    unordered = ["=", "<>", "is distinct from"]
    operators = unordered if kind is Type.BOOLEAN else [*unordered, "<", "<=", ">", ">="]
    return Compare(draw(st.sampled_from(operators)), operands[0], operands[1])


conditions = clauses(2)


# Few values, the same in conditions and events, so that most conjuncts are true for some event: ends of ranges and of blocks, and
# numbers that are next to each other but equal as doubles.
_KEY_NUMBERS = [-17, -16, -1, 0, 1, 2, 3, 15, 16, 17, 31, 32, 255, 256, 2**53, 2**53 + 1, 2**63 - 1, -(2**63) + 1]
_KEY_DECIMALS = [
    "-0.5",
    "0.1",
    "0.5",
    "1.1",
    "2.5",
    "15.999999999999999999",
    "16.000000000000000001",
    "84.04",
    "9999999999999999999.99",
]
_KEY_TEXTS = [
    "",
    "a",
    "ab",
    "abc",
    "abcd",
    "abcde",
    "a%b",
    "a%c",
    "b",
    "B",
    "é",
    "éé",
    "😀",
    "😀b",
    "2026-01-01",
    "2026-01-02",
    "x" * 60,
]
_PREFIXES = ["a%", "b%", "AB%", "ab%", "abc_%", "é%", r"a\%b%", r"a\%%", "😀_", "ab", "2026-01%", "x%", "_b%"]
_KEY_MOMENTS = [-1, 0, 1, 59_999_999, 60_000_000, 60_000_001, 1_767_225_600_000_000]
_KEY_FIELDS = {
    Type.TEXT: Field("object", ("text",), Extraction.TEXT),
    Type.INTEGER: Field("object", ("number",), Extraction.BIGINT),
    Type.NUMERIC: Field("object", ("digits",), Extraction.TEXT_NUMERIC),
    Type.TIMESTAMPTZ: Field("emitted_at", (), Extraction.COLUMN),
}


@st.composite
def key_constants(draw: st.DrawFn, kind: Type) -> Constant:
    if kind.is_number and draw(st.booleans()):
        kind = Type.NUMERIC if kind is Type.INTEGER else Type.INTEGER
    match kind:
        case Type.INTEGER:
            return Constant(draw(st.sampled_from(_KEY_NUMBERS)), kind)
        case Type.NUMERIC:
            return Constant(Decimal(draw(st.sampled_from(_KEY_DECIMALS))), kind)
        case Type.TEXT:
            return Constant(draw(st.sampled_from(_KEY_TEXTS)), kind)
    return Constant(draw(st.sampled_from(_KEY_MOMENTS)), kind)


@st.composite
def key_clauses(draw: st.DrawFn) -> Node:
    """What an access path is made of: a field beside constants."""
    kind = draw(st.sampled_from([*_KEY_FIELDS]))
    field = draw(fields(kind)) if draw(st.integers(0, 9)) == 0 else _KEY_FIELDS[kind]
    first, second = draw(key_constants(kind)), draw(key_constants(kind))
    match draw(st.sampled_from(["=", "in", "between", "between", "range", "range", "prefix", "sum"])):
        case "=":
            return Compare("=", field, first)
        case "in":
            return In(field, (first, second, *draw(st.lists(key_constants(kind), max_size=4))))
        case "between":
            low, high = sorted((first, second), key=lambda constant: constant.value)
            return Between(field, low, high)
        case "prefix" if kind is Type.TEXT:
            if draw(st.booleans()):
                return Call("starts_with", (field, first), Type.BOOLEAN)
            return Like(field, draw(st.sampled_from(_PREFIXES)), draw(st.integers(0, 4)) == 0)
        case "sum" if kind.is_number:
            return Compare(draw(st.sampled_from(["<", ">="])), field, Arithmetic(draw(st.sampled_from("+-/")), first, second))
    operator = draw(st.sampled_from(["<", "<=", ">", ">="]))
    return Compare(operator, field, first) if draw(st.booleans()) else Compare(operator, first, field)


@st.composite
def _key_conditions(draw: st.DrawFn) -> Node:
    parts = tuple(draw(st.lists(key_clauses(), min_size=1, max_size=3)))
    return parts[0] if len(parts) == 1 else Junction("and", parts)


key_conditions = _key_conditions()
"""Conjunctions that an index can find."""
_numbers = st.sampled_from(_KEY_NUMBERS)
_digits = st.one_of(_numbers.map(str), st.sampled_from(_KEY_DECIMALS), st.sampled_from(["NaN", "1e400", "+16", "", "0016.00"]))
key_events = st.builds(
    Sample,
    st.one_of(
        st.fixed_dictionaries({"number": _numbers, "digits": _digits, "text": st.sampled_from(_KEY_TEXTS)}),
        st.fixed_dictionaries({}, optional={"number": scalars, "digits": scalars, "text": scalars}),
    ),
    type=st.sampled_from(["", "order.placed"]),
    key=st.one_of(st.none(), texts),
    emitted_at=st.sampled_from(_KEY_MOMENTS).map(
        lambda micros: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)
    ),
)
"""Events whose values are those of the conditions, with some that are missing or of another type."""
