"""Payloads: decoded from their JSON text into what a handler asks for.

Promises: no digit is lost silently. JSON integers become int. Numbers with a fraction or exponent become float, or with
`numbers="decimal"` Decimal; a field of type Decimal gets every digit in either case."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from functools import cache
from importlib import import_module
from typing import Any, Literal, TypeAlias

import msgspec

from headrace.core import JSON, Invalid, RawJSON, decode, encode

Numbers: TypeAlias = Literal["float", "decimal"]
"""What JSON numbers with a fraction or exponent become."""
Decode: TypeAlias = Callable[[RawJSON], object]

ERRORS_MAX = 3
"""Errors of one payload that a message lists."""

_decode_decimals = msgspec.json.Decoder(float_hook=Decimal).decode


@cache
def payload_decoder(payload_type: object, numbers: Numbers) -> Decode:
    """Decodes payloads into a type (None: plain JSON values); raises TypeError if the type is not supported."""
    if numbers not in ("float", "decimal"):
        raise Invalid(f'numbers is {numbers!r}; give "float" or "decimal"')
    if payload_type is None:
        return _decode_decimals if numbers == "decimal" else _decode_plain
    if _is_pydantic(payload_type):
        validate = import_module("pydantic").TypeAdapter(payload_type).validate_python
        # Do not use validate_json: it reads a Decimal by way of a float.
        return lambda raw: validate(_decode_decimals(raw))
    float_hook = Decimal if numbers == "decimal" or _contains_pydantic(payload_type) else None
    return msgspec.json.Decoder(payload_type, dec_hook=_validate_nested, float_hook=float_hook).decode


def raw_payload(payload: object) -> RawJSON:
    """The JSON text of a payload, whether it was decoded already or not."""
    return payload if isinstance(payload, msgspec.Raw) else msgspec.Raw(encode(payload).encode())  # type: ignore[arg-type]


def mismatch_text(error: Exception) -> str:
    """What does not fit, in one line."""
    if callable(errors := getattr(error, "errors", None)):  # pydantic's
        problems = [f"{'.'.join(map(str, entry['loc'])) or 'payload'}: {entry['msg']}" for entry in errors()]
        more = [f"and {len(problems) - ERRORS_MAX} more"] if len(problems) > ERRORS_MAX else []
        return ", ".join(problems[:ERRORS_MAX] + more)
    return " ".join(str(error).split())


def _decode_plain(raw: RawJSON) -> JSON:
    return decode(bytes(raw))


def _is_pydantic(kind: object) -> bool:
    """Is it a pydantic model or dataclass? Without importing pydantic."""
    return hasattr(kind, "__pydantic_core_schema__") or hasattr(kind, "__pydantic_validator__")


def _contains_pydantic(kind: object) -> bool:
    """Is a part of the type a pydantic model, which has to get numbers with all their digits?"""
    parts: list[object] = [msgspec.inspect.type_info(kind)]
    seen: set[int] = set()
    while parts:
        part = parts.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, msgspec.inspect.CustomType) and _is_pydantic(part.cls):
            return True
        if isinstance(part, msgspec.inspect.Type | msgspec.inspect.Field):
            parts += [getattr(part, name) for name in part.__struct_fields__]
        elif isinstance(part, tuple):
            parts += part
    return False


def _validate_nested(kind: type, value: Any) -> object:
    """A part of a payload that msgspec does not know: a pydantic model inside of another type."""
    if _is_pydantic(kind):
        try:
            return import_module("pydantic").TypeAdapter(kind).validate_python(value)
        except ValueError as error:
            raise msgspec.ValidationError(mismatch_text(error)) from error
    raise NotImplementedError(f"{kind.__qualname__} is not a type for payloads")
