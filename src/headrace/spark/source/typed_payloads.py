"""Payloads as typed values, by the option `schema`: the type is that of the schema of the one event type that is read, or columns in DDL.

A value that does not fit its type is null, as in Spark's from_json; the rest of the payload is kept. A value whose schema has no common
Spark type is its JSON text."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation, localcontext
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.core import Invalid
from headrace.definitions.schemas import get_schema, spark_type
from headrace.spark.source.ddl import Type, parse_ddl
from headrace.spark.source.options import REGISTRY, SourceOptions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


_encoder = msgspec.json.Encoder(decimal_format="number")


def with_payload_type(schema: StructType, options: SourceOptions) -> StructType:
    """The schema of a read with the payload typed, where the options ask for that. Raises UnknownSchema."""
    from pyspark.sql.types import StructType

    if not options.has_typed_payload or "payload" not in schema.fieldNames():
        return schema
    payload_type = _payload_type(options)
    fields = schema.jsonValue()["fields"]
    return StructType.fromJson(
        {
            "fields": [
                {**field, "type": payload_type, "nullable": True} if field["name"] == "payload" else field for field in fields
            ]
        }
    )


def _payload_type(options: SourceOptions) -> Type:
    assert options.payload_schema is not None
    if options.payload_schema != REGISTRY:
        return parse_ddl(options.payload_schema)
    types = options.rows.types or ()
    if len(types) != 1:
        raise Invalid("option schema=registry gives the payload the type of one event type; name it in the option types")
    access = options.access
    with access.connect(access.targets()[0]) as conn:
        return spark_type(get_schema(conn, types[0], namespace=options.namespace).values)


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
