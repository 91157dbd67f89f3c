"""Payloads as typed values, by the option `schema`: types as Spark writes them in DDL, and JSON texts as values of a type.

The processes that plan a read have no JVM, and only the JVM parses DDL (`order_id long, items array<struct<sku: string>>`), so it is parsed
here, to Spark's JSON form. A value that does not fit its type is null, as in Spark's from_json; the rest of the payload is kept. A value
whose schema has no common Spark type is its JSON text."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation, localcontext
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec
from lark import Lark, Token, Transformer
from lark.exceptions import LarkError, UnexpectedInput

from headrace.core import Invalid

if TYPE_CHECKING:
    import pyarrow as pa

_GRAMMAR = r"""
start: column ("," column)*
column: name ":"? type not_null?
not_null: "not"i "null"i
?type: "struct"i "<" fields ">" -> struct
    | "array"i "<" type ">" -> array
    | "map"i "<" type "," type ">" -> map
    | ("decimal"i | "dec"i | "numeric"i) ("(" INT ("," INT)? ")")? -> decimal
    | WORD -> simple
fields: column ("," column)*
name: WORD | QUOTED
WORD: /[A-Za-z_][A-Za-z_0-9]*/
QUOTED: /`(``|[^`])+`/
%import common.INT
%import common.WS
%ignore WS
"""
_SIMPLE = {
    "string": "string",
    "boolean": "boolean",
    **dict.fromkeys(("byte", "tinyint"), "byte"),
    **dict.fromkeys(("short", "smallint"), "short"),
    **dict.fromkeys(("int", "integer"), "integer"),
    **dict.fromkeys(("long", "bigint"), "long"),
    **dict.fromkeys(("float", "real"), "float"),
    "double": "double",
    "date": "date",
    "timestamp": "timestamp",
}
_ADVICE = "write registry, or columns such as order_id long, amount decimal(12, 2), items array<struct<sku: string>>"
Type = str | dict[str, Any]
"""A type in Spark's JSON form."""


def parse_ddl(text: str) -> Type:
    """The struct that a list of columns means. Raises Invalid, with the place of the mistake."""
    try:
        type_: Type = _ToJson().transform(_parser().parse(text))
    except UnexpectedInput as error:
        # Lark's place of a text that ends too early is -1.
        place = f"line {error.line}, column {error.column}" if error.line > 0 else "at its end"
        raise Invalid(f"option schema, {place}: not a list of columns and types; {_ADVICE}") from None
    except LarkError as error:
        cause = error.__context__ if isinstance(error.__context__, Invalid) else error
        raise Invalid(str(cause)) from None
    return type_


@cache
def _parser() -> Lark:
    return Lark(_GRAMMAR, parser="earley", maybe_placeholders=False)


class _ToJson(Transformer[Token, Type]):
    def start(self, columns: list[Any]) -> Type:
        names = [column["name"] for column in columns]
        if len({name.lower() for name in names}) < len(names):
            raise Invalid(f"option schema names a column twice: {', '.join(names)}")
        return {"type": "struct", "fields": columns}

    fields = start

    def struct(self, children: list[Any]) -> Type:
        return children[0]  # type: ignore[no-any-return]

    def column(self, children: list[Any]) -> Type:
        # A payload may lack any field, whatever the type says.
        return {"name": children[0], "type": children[1], "nullable": True, "metadata": {}}

    def not_null(self, _: list[Any]) -> None:
        return None

    def array(self, children: list[Any]) -> Type:
        return {"type": "array", "elementType": children[0], "containsNull": True}

    def map(self, children: list[Any]) -> Type:
        if children[0] != "string":
            raise Invalid("option schema: the keys of a map are names of JSON fields, so they are string")
        return {"type": "map", "keyType": "string", "valueType": children[1], "valueContainsNull": True}

    def decimal(self, children: list[Any]) -> Type:
        precision, scale = (*(int(child) for child in children), *((10, 0)[len(children) :]))
        if not 1 <= precision <= 38 or not 0 <= scale <= precision:
            raise Invalid(
                f"option schema: decimal({precision}, {scale}) is not a type; use at most 38 digits, and a scale within them"
            )
        return f"decimal({precision},{scale})"

    def simple(self, children: list[Any]) -> Type:
        name = str(children[0]).lower()
        if name not in _SIMPLE:
            raise Invalid(
                f"option schema: a payload has no type {name!r}; use {', '.join(_SIMPLE)}, decimal, array, map or struct"
            )
        return _SIMPLE[name]

    def name(self, children: list[Any]) -> str:
        text = str(children[0])
        return text[1:-1].replace("``", "`") if text.startswith("`") else text


_encoder = msgspec.json.Encoder(decimal_format="number")


def typed_array(payloads: Iterable[str], type_: pa.DataType) -> pa.Array:
    """JSON texts as an Arrow array of this type."""
    import pyarrow as pa

    # Digits matter to a decimal; a float is read in half the time.
    decoder = msgspec.json.Decoder(float_hook=Decimal) if "decimal" in str(type_) else msgspec.json.Decoder()
    return pa.array([_fit(decoder.decode(payload), type_) for payload in payloads], type_)


def _fit(value: Any, type_: pa.DataType) -> object:
    """The value as Arrow takes it; None if it does not fit."""
    import pyarrow.types as kinds

    if value is None:
        return None
    if kinds.is_struct(type_):
        if not isinstance(value, dict):
            return None
        return {field.name: _fit(value.get(field.name), field.type) for field in type_}
    if kinds.is_list(type_):
        return [_fit(item, type_.value_type) for item in value] if isinstance(value, list) else None
    if kinds.is_map(type_):
        return [(name, _fit(item, type_.item_type)) for name, item in value.items()] if isinstance(value, dict) else None
    if kinds.is_string(type_) or kinds.is_large_string(type_):
        return value if isinstance(value, str) else _encoder.encode(value).decode()
    if kinds.is_boolean(type_):
        return value if isinstance(value, bool) else None
    return _fit_scalar(value, type_)


def _fit_scalar(value: Any, type_: pa.DataType) -> object:
    import pyarrow.types as kinds

    if isinstance(value, str):
        try:
            if kinds.is_timestamp(type_):
                moment = datetime.fromisoformat(value)
                return None if moment.tzinfo is None else moment.astimezone(UTC)
            return date.fromisoformat(value) if kinds.is_date(type_) else None
        except (ValueError, OverflowError):
            return None
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    if kinds.is_decimal(type_):
        return _fit_decimal(Decimal(str(value)), type_)
    if kinds.is_floating(type_):
        return float(value)
    limit = 2 ** (type_.bit_width - 1) if kinds.is_integer(type_) else 0
    return int(value) if -limit <= value < limit and value == int(value) else None


def _fit_decimal(value: Decimal, type_: pa.Decimal128Type) -> Decimal | None:
    """With the scale of the type; None if it would lose digits before the point. Digits after it are rounded."""
    with localcontext() as context:
        context.prec = 76
        try:
            fitting = value.quantize(Decimal(1).scaleb(-type_.scale))
        except InvalidOperation:
            return None
    return fitting if fitting.adjusted() < type_.precision - type_.scale else None
