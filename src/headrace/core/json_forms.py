"""The JSON forms of Python values: JSON's own, what msgspec knows (dataclasses, attrs, structs, times, UUID, Decimal, Enum), and
here the rest: pydantic models, subclasses, paths, addresses, other mappings and sequences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import Field
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface, IPv6Network
from pathlib import PurePath
from typing import Any, ClassVar, Protocol, TypeAlias
from uuid import UUID

import msgspec

RawJSON: TypeAlias = msgspec.Raw
"""JSON text that is stored as written, so that every digit is kept."""


class PydanticModel(Protocol):
    """An instance of a pydantic model, version 2. pydantic itself is never imported."""

    def model_dump(self) -> Any: ...


class DataclassInstance(Protocol):
    """An instance of a dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]


class AttrsInstance(Protocol):
    """An instance of an attrs class."""

    __attrs_attrs__: ClassVar[Any]


IPAddress: TypeAlias = IPv4Address | IPv4Interface | IPv4Network | IPv6Address | IPv6Interface | IPv6Network
PayloadObject: TypeAlias = msgspec.Struct | DataclassInstance | AttrsInstance | PydanticModel
PayloadScalar: TypeAlias = (
    None | bool | int | float | str | Decimal | date | time | timedelta | UUID | Enum | bytes | PurePath | IPAddress | RawJSON
)
Payload: TypeAlias = (
    PayloadScalar
    | PayloadObject
    | Sequence["Payload"]
    | Set["Payload"]
    | Mapping[str, "Payload"]
    | Mapping[int, "Payload"]
    | Mapping[UUID, "Payload"]
)
"""What can be published: a value with a JSON form. docs/publish.md says which form."""


def json_form(value: object) -> object:
    """What stands for a value that msgspec does not know. Raises TypeError if nothing does."""
    if type(value) in (list, tuple, dict):
        raise TypeError(f"a {type(value).__name__} cannot be a member name")
    if isinstance(value, msgspec.Raw):
        return None  # Its text is read on its own.
    for builtin in (str, float, int):
        if isinstance(value, builtin):
            return builtin(value)
    if isinstance(value, Decimal | bytes):
        return Decimal(value) if isinstance(value, Decimal) else bytes(value)
    if is_pydantic_model(value):
        return _dump(value)
    if isinstance(value, date | time | timedelta):
        return _form_of_time(value)
    if isinstance(value, IPAddress | PurePath) or type(value).__module__ == "pydantic.networks":
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence | Set):
        return list(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


write_json = msgspec.json.Encoder(decimal_format="number", enc_hook=json_form).encode
"""The JSON of a value, not checked: msgspec writes a float that is not finite as null, and a datetime without a zone as it is."""


def is_pydantic_model(value: object) -> bool:
    """True for an instance of a pydantic model, not for the class itself."""
    return hasattr(type(value), "model_dump")


def members_of(value: object) -> Iterable[tuple[object, object]] | None:
    """The members of an object or the elements of an array, with their names or numbers; None for any other value."""
    if isinstance(value, dict):
        return value.items()
    if isinstance(value, msgspec.Struct):
        return _present(value, zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True))
    if (fields := getattr(type(value), "__dataclass_fields__", None)) is not None:
        return _present(value, zip(fields, fields, strict=True))
    if (attributes := getattr(type(value), "__attrs_attrs__", None)) is not None:
        return _present(value, ((attribute.name, attribute.name) for attribute in attributes))
    if is_pydantic_model(value):
        return _members_of_model(value)
    if isinstance(value, Mapping):
        return value.items()
    if isinstance(value, Sequence | Set) and not isinstance(value, str | bytes | bytearray | memoryview):
        return enumerate(value)
    return None


def _present(value: object, names: Iterable[tuple[str, str]]) -> list[tuple[object, object]]:
    """The members of an object by the names they are written with; an attribute that is not set is not written."""
    members = [(name, getattr(value, attribute, msgspec.UNSET)) for name, attribute in names]
    return [(name, member) for name, member in members if member is not msgspec.UNSET]


def _members_of_model(model: object) -> Iterable[tuple[object, object]] | None:
    try:
        dumped = _dump(model)
    except ValueError:
        return None  # One of its serializers failed.
    # A model of a single value has the members of that value.
    members = members_of(dumped)
    return [("root", dumped)] if members is None else members


def _dump(model: object) -> object:
    # Do not use pydantic's JSON mode, which writes a Decimal as text and a secret as asterisks.
    return model.model_dump()  # type: ignore[attr-defined]


def _form_of_time(value: date | time | timedelta) -> object:
    """The form of a subclass, such as those of pendulum and pandas: its own text, which may have nanoseconds."""
    if isinstance(value, timedelta):
        return timedelta(value.days, value.seconds, value.microseconds)
    text = value.isoformat()
    # The missing time of pandas is a datetime, and its text is NaT.
    if not text[:1].isdigit():
        raise TypeError(f"{text} is not a time")
    return text
