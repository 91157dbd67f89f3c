"""Payloads as typed values, `option("schema", "registry")`: the type comes from the schema of the one event type that is read.

A value that does not fit its type is null, as in Spark's from_json; the rest of the payload is kept. A value whose schema has no common
Spark type is its JSON text."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.core import Invalid
from headrace.schemas import get_schema, spark_type
from headrace.spark.source.options import SourceOptions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


def with_payload_type(schema: StructType, options: SourceOptions) -> StructType:
    """The schema of a read with the payload typed, where the options ask for that. Raises UnknownSchema."""
    from pyspark.sql.types import StructType

    if not options.has_typed_payload or "payload" not in schema.fieldNames():
        return schema
    types = options.rows.types or ()
    if len(types) != 1:
        raise Invalid("option schema gives the payload the type of one event type; name it in the option types")
    access = options.access
    with access.connect(access.targets()[0]) as conn:
        payload_type = spark_type(get_schema(conn, types[0], namespace=options.namespace).values)
    fields = schema.jsonValue()["fields"]
    return StructType.fromJson(
        {
            "fields": [
                {**field, "type": payload_type, "nullable": True} if field["name"] == "payload" else field for field in fields
            ]
        }
    )


def typed_array(payloads: Iterable[str], type_: pa.DataType) -> pa.Array:
    """JSON texts as an Arrow array of this type."""
    import pyarrow as pa

    return pa.array([_fit(msgspec.json.decode(payload), type_) for payload in payloads], type_)


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
        return value if isinstance(value, str) else msgspec.json.encode(value).decode()
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
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if kinds.is_floating(type_):
        return float(value)
    return int(value) if kinds.is_integer(type_) and value == int(value) and abs(value) < 2**63 else None
