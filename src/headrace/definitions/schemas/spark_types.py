"""Value set → Spark type, in Spark's own JSON form of types: `option("schema", "registry")` reads payloads as it. Imports no Spark.

A value that does not fit its type is null, as Spark's from_json makes it. Where a schema allows several types that Spark has no common
type for, the value stays JSON text (string)."""

from __future__ import annotations

from typing import Final, TypeAlias

from headrace.definitions.schemas.value_set import (
    Alternative,
    Array,
    Boolean,
    Enumeration,
    Null,
    Number,
    Object,
    String,
    ValueSet,
    json_type,
)

SparkType: TypeAlias = "str | dict[str, object]"

INTEGER_MAX: Final = 2**63 - 1


def spark_type(values: ValueSet) -> SparkType:
    """The Spark type of a schema's values; `string` where there is no better one."""
    types: list[SparkType] = []
    for alternative in values.listed:
        for name in _types(alternative):
            if name not in types:
                types.append(name)
    if values.is_any or not types:
        return "string"
    if len(types) == 1:
        return types[0]
    return "double" if all(name in ("long", "double") for name in types) else "string"


def _types(alternative: Alternative) -> list[SparkType]:
    match alternative:
        case Null():
            return []
        case Boolean():
            return ["boolean"]
        case Number():
            return ["long" if alternative.is_integer and _fits(alternative) else "double"]
        case String():
            return [{"date-time": "timestamp", "date": "date"}.get(alternative.format or "", "string")]
        case Array():
            return [{"type": "array", "elementType": spark_type(alternative.items), "containsNull": True}]
        case Object(properties=properties) if not properties:
            values = spark_type(alternative.additional)
            return [{"type": "map", "keyType": "string", "valueType": values, "valueContainsNull": True}]
        case Object():
            fields = [_field(name, spark_type(value)) for name, value in alternative.properties.items()]
            return [{"type": "struct", "fields": fields}]
        case Enumeration():
            return _enumeration_types(alternative)


def _enumeration_types(enumeration: Enumeration) -> list[SparkType]:
    values = [value for value in enumeration.values if value is not None]
    kinds = {json_type(value) for value in values}
    if kinds == {"number"}:
        return ["long" if all(isinstance(value, int) and abs(value) <= INTEGER_MAX for value in values) else "double"]
    return ["boolean"] if kinds == {"boolean"} else ["string"] if kinds else []


def _field(name: str, type_: SparkType) -> dict[str, object]:
    return {"name": name, "type": type_, "nullable": True, "metadata": {}}


def _fits(numbers: Number) -> bool:
    """An integer without bounds is taken for one of 64 bits."""
    return all(bound is None or abs(bound) <= INTEGER_MAX for bound in (numbers.low, numbers.high))
