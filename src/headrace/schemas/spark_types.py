"""Value set → Spark type, as DDL text: `option("schema", "registry")` reads payloads as this struct. Imports no Spark.

A value that does not fit its type is null, as Spark's from_json makes it. Where a schema allows several types that Spark has no common
type for, the value stays JSON text (string)."""

from __future__ import annotations

from typing import Final

from headrace.schemas.value_set import Alternative, Array, Boolean, Enumeration, Null, Number, Object, String, ValueSet, json_type

INTEGER_MAX: Final = 2**63 - 1


def spark_type(values: ValueSet) -> str:
    """The Spark type of a schema's values, as DDL; `string` where there is no better one."""
    types: list[str] = []
    for alternative in values.listed:
        for name in _types(alternative):
            if name not in types:
                types.append(name)
    if values.is_any or not types:
        return "string"
    if len(types) == 1:
        return types[0]
    return "double" if set(types) <= {"bigint", "double"} else "string"


def _types(alternative: Alternative) -> list[str]:
    match alternative:
        case Null():
            return []
        case Boolean():
            return ["boolean"]
        case Number():
            return ["bigint" if alternative.is_integer and _fits(alternative) else "double"]
        case String():
            return ["timestamp" if alternative.format == "date-time" else "date" if alternative.format == "date" else "string"]
        case Array():
            return [f"array<{spark_type(alternative.items)}>"]
        case Object(properties=properties) if not properties:
            return [f"map<string, {spark_type(alternative.additional)}>"]
        case Object():
            fields = ", ".join(f"{_quote(name)}: {spark_type(value)}" for name, value in alternative.properties.items())
            return [f"struct<{fields}>"]
        case Enumeration():
            kinds = {json_type(value) for value in alternative.values} - {"null"}
            if kinds == {"number"}:
                return [
                    "bigint"
                    if all(isinstance(v, int) and abs(v) <= INTEGER_MAX for v in alternative.values if v is not None)
                    else "double"
                ]
            return ["boolean"] if kinds == {"boolean"} else ["string"] if kinds else []


def _fits(numbers: Number) -> bool:
    """An integer without bounds is taken for one of 64 bits."""
    return all(bound is None or abs(bound) <= INTEGER_MAX for bound in (numbers.low, numbers.high))


def _quote(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
