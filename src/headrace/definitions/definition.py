"""Definitions and their kinds: a kind declares its fields once, and everything about them derives from that list.

A kind has a frozen dataclass, for example `Rule`. Each field has a `Field` in its annotation, which says the rest: its help, its
limits, how it is stored. `kind.fields` is the list; the store, files, plans, the command line, forms and the reference pages go
through it with plain functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, replace
from datetime import timedelta
from functools import cache
from typing import Any, ClassVar, Literal, Protocol, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from headrace.core import Invalid, decode, encode, parse_duration, print_duration


class Definition(Protocol):
    """A frozen dataclass whose fields are what somebody wrote, each with a `Field` in its annotation."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def name(self) -> str: ...


AnyDefinition = TypeVar("AnyDefinition", bound=Definition)


@dataclass(frozen=True)
class Field:
    """What is said of a field once, in its annotation. Name, type and default are those of the dataclass."""

    help: str
    """A sentence for options, forms and the reference page."""
    unset: str | None = None
    """What no value means, such as "until the target takes it"."""
    minimum: float | None = None
    maximum: float | None = None
    is_fixed: bool = False
    """True if it stays as it was created: only a definition that is dropped and created again gets another one."""
    is_long: bool = False
    """A text of several lines."""
    is_json: bool = False
    """Stored as jsonb."""
    read: Callable[[Any], Any] | None = None
    """Makes the value of its JSON; None: the JSON is the value."""
    write: Callable[[Any], Any] | None = None
    """Makes the JSON of its value."""
    describe: Callable[[Any], str] | None = None
    """Says a value in words, for lists and comparisons; None: the value, or its JSON, says enough."""
    title: str = ""
    """What forms and pages call it; empty: its label."""
    hint: str = ""
    """What a form says beyond the help: how a value is written, for example."""
    example: str = ""
    """A value that an empty input of a form shows."""
    meanings: tuple[str, ...] = ()
    """What its choices mean, in their order, where their names say too little."""
    name: str = ""
    type: Any = None
    default: Any = ...
    """`...` for a field that is required."""

    @property
    def is_required(self) -> bool:
        return self.default is ...

    @property
    def is_optional(self) -> bool:
        """True if the value may be None, which is then its default."""
        return self.default is None

    @property
    def base(self) -> Any:
        """The type without None: str, int, float, bool, timedelta, a Literal, or a type of JSON values."""
        others = [part for part in get_args(self.type) if part is not type(None)]
        return others[0] if self.is_optional and len(others) == 1 else self.type

    @property
    def choices(self) -> tuple[str, ...]:
        """The values of a Literal; of any other type none."""
        return get_args(self.base) if get_origin(self.base) is Literal else ()

    def from_entry(self, value: object) -> Any:
        """A value of a file as the field's type. Raises msgspec.ValidationError.

        A duration is written as in patterns, `30 days`, or by ISO 8601, `P30D`."""
        if self.is_json:
            return self._from_json_entry(value)
        if self.base is not timedelta or value is None or (isinstance(value, str) and value.startswith(("P", "-P", "+P"))):
            return msgspec.convert(value, self.type)
        if not isinstance(value, str):
            raise msgspec.ValidationError(f"{value!r} is not a duration; write a number and a unit, such as '30 days'")
        try:
            return timedelta(microseconds=parse_duration(value))
        except ValueError as error:
            raise msgspec.ValidationError(str(error)) from None

    def _from_json_entry(self, value: object) -> Any:
        if value is None:
            return None if self.is_optional else self.from_column({})
        is_object = isinstance(value, dict) and all(isinstance(name, str) for name in value)
        if get_origin(self.base) is Mapping and not is_object:
            raise msgspec.ValidationError("expected an object, a mapping of names to values")
        # Write it as PostgreSQL will return it.
        return self.from_column(decode(encode(value, self.name)))  # type: ignore[arg-type]

    def from_text(self, text: str) -> Any:
        """The value of a text that somebody typed; an empty text of an optional field is None. Raises Invalid."""
        if not text.strip() and self.is_optional:
            return None
        if self.base is str:
            return text
        try:
            if self.is_json:
                return self._from_json_text(text)
            if self.choices and text not in self.choices:
                raise Invalid(f"{self.label} is {', '.join(self.choices[:-1])} or {self.choices[-1]}, not {text!r}")
            if self.base is timedelta:
                return self.from_entry(text)
            return msgspec.convert({"yes": "true", "no": "false"}.get(text, text.strip()), self.base, strict=False)
        except msgspec.ValidationError as error:
            expected = {int: "a whole number", float: "a number", bool: "yes or no"}.get(self.base)
            raise Invalid(f"{self.label} must be {expected}, not {text!r}" if expected else f"{self.label}: {error}") from None

    def _from_json_text(self, text: str) -> Any:
        value = decode(text)
        # A payload stays as it was typed, so that no digit is lost.
        return self.from_entry(value) if get_origin(self.base) is Mapping else msgspec.Raw(text.encode())

    def to_text(self, value: Any) -> str:
        """A value as `from_text` reads it."""
        if value is None:
            return ""
        if self.is_json:
            return encode(self.to_json(value))
        if isinstance(value, timedelta):
            return print_duration(value // timedelta(microseconds=1))
        return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)

    @property
    def label(self) -> str:
        """Its name in words: `delay` for delay_s."""
        return self.name.removesuffix("_s").replace("_", " ")

    @property
    def is_in_seconds(self) -> bool:
        return self.name.endswith("_s")

    @property
    def form_text(self) -> str:
        """What a form says beside the input."""
        parts = (self.help.replace("`", ""), self.hint, f"Empty: {self.unset}." if self.unset else "")
        return " ".join(filter(None, parts))

    def in_words(self, value: Any) -> Any:
        """A value as a page shows it: with its unit, what a choice means, what no value means."""
        if value is None:
            return self.unset
        if self.describe is not None:
            return self.describe(value)
        if self.meanings:
            return self.meanings[self.choices.index(value)]
        return f"{value:g} s" if self.is_in_seconds else value

    def from_column(self, value: Any) -> Any:
        """The value of what the database has stored."""
        return value if self.read is None or value is None else self.read(value)

    def to_json(self, value: Any) -> Any:
        """A value of JSON as it is stored."""
        return value if self.write is None or value is None else self.write(value)

    def summarize(self, value: Any) -> Any:
        """A value as lists and comparisons show it."""
        if self.describe is not None and value is not None:
            return self.describe(value)
        return self.to_json(value)

    def to_column(self, value: Any) -> Any:
        """A value as a parameter of a statement."""
        return encode(self.to_json(value)) if self.is_json and value is not None else value


@cache
def fields_of(definition: type[Definition]) -> tuple[Field, ...]:
    """The fields of a definition, in order: what their annotations say, with name, type and default."""
    hints = get_type_hints(definition, include_extras=True)
    declared = []
    for own in fields(definition):
        annotation = hints[own.name]
        field = next((part for part in getattr(annotation, "__metadata__", ()) if isinstance(part, Field)), None)
        if field is None:
            continue
        default = ... if own.default is MISSING else own.default
        if own.default_factory is not MISSING:
            default = own.default_factory()
        named = replace(field, name=own.name, type=annotation.__origin__, default=default)
        declared.append(replace(named, title=field.title or named.label))
    return tuple(declared)
