"""Generated Python classes for the payload of an event type: dataclasses, msgspec Structs or pydantic models.

Promises: the same schema gives the same text. A payload that keeps the schema can be read into the class, by a handler that asks for
`LoggedEvent[Class]`, and published again. A field that was missing is missing then too, and not null.

Not by datamodel-code-generator: it works on the text of a schema and not on the value set that all other readers of a schema share, its
classes do not keep that last promise in all three styles, and it brings black, isort, inflect, genson and pydantic."""

from __future__ import annotations

import keyword
import re
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, get_args

from headrace.core import Invalid
from headrace.definitions.schemas.value_set import (
    Alternative,
    Array,
    Boolean,
    Enumeration,
    JsonValue,
    Null,
    Number,
    Object,
    String,
    ValueSet,
)

Style: TypeAlias = Literal["dataclass", "msgspec", "pydantic"]
STYLES: Final[tuple[Style, ...]] = get_args(Style)
Numbers: TypeAlias = Literal["float", "decimal"]

_HEADERS: Final = {
    "dataclass": ["from dataclasses import dataclass", "import msgspec"],
    "msgspec": ["import msgspec"],
    "pydantic": ["import pydantic"],
}
_FORMATS: Final = {"date-time": "datetime", "date": "date", "uuid": "UUID"}
_IMPORTS: Final = {
    "datetime": "from datetime import datetime",
    "date": "from datetime import date",
    "UUID": "from uuid import UUID",
    "Decimal": "from decimal import Decimal",
    "Any": "from typing import Any",
    "Literal": "from typing import Literal",
}
_PYDANTIC_BASE: Final = '''class Payload(pydantic.BaseModel):
    """What the classes share: a field that was not set is left out of the JSON."""

    model_config = pydantic.ConfigDict(populate_by_name=True)

    @pydantic.model_serializer(mode="plain")
    def _leave_out_missing(self) -> dict[str, object]:
        fields = type(self).model_fields
        return {fields[name].alias or name: getattr(self, name) for name in fields if name in self.model_fields_set}
'''


@dataclass(frozen=True)
class _Property:
    name: str
    """In JSON."""
    attribute: str
    type: str
    is_required: bool


@dataclass(frozen=True)
class _Class:
    name: str
    source: str
    """What it is the class of, for the docstring."""
    properties: tuple[_Property, ...]


def generate_classes(schemas: dict[str, ValueSet], *, style: Style = "dataclass", numbers: Numbers = "float") -> str:
    """A Python module with a class for each event type, nested classes before those that use them.

    Raises Invalid for a property that a dataclass cannot have."""
    if style not in STYLES:
        raise Invalid(f"style {style!r} does not exist; choose {', '.join(STYLES)}")
    writer = _Writer(style, numbers)
    for event_type in sorted(schemas):
        writer.add(event_type, schemas[event_type])
    return writer.text()


@dataclass
class _Writer:
    style: Style
    numbers: Numbers
    classes: list[_Class] = field(default_factory=list)
    aliases: list[str] = field(default_factory=list)
    names: set[str] = field(default_factory=lambda: {"Payload", *_IMPORTS})

    def add(self, event_type: str, values: ValueSet) -> None:
        name = _pascal(event_type)
        kind = self._type(values, name, f"payloads of {event_type}")
        if kind != name:
            self.aliases.append(f"{name} = {kind}\n")

    def _type(self, values: ValueSet, name: str, source: str) -> str:
        if values.is_any or values.is_empty:
            return "Any"
        # Of two classes for one JSON object, a reader could not tell which is meant.
        groups = [_group(alternative) for alternative in values.alternatives]
        if len(set(groups)) < len(groups) or "mixed" in groups:
            return "Any"
        parts: list[str] = []
        for alternative in values.alternatives:
            parts += [part for part in [self._alternative(alternative, name, source)] if part not in parts]
        parts.sort(key=lambda part: part == "None")
        return "Any" if "Any" in parts else " | ".join(parts)

    def _alternative(self, alternative: Alternative, name: str, source: str) -> str:
        match alternative:
            case Null():
                return "None"
            case Boolean():
                return "bool"
            case Number():
                return "int" if alternative.is_integer else "Decimal" if self.numbers == "decimal" else "float"
            case String():
                return _FORMATS.get(alternative.format or "", "str")
            case Array():
                return f"list[{self._type(alternative.items, name + 'Item', f'items of {source}')}]"
            case Object(properties=properties) if not properties:
                return f"dict[str, {self._type(alternative.additional, name + 'Value', f'values of {source}')}]"
            case Object():
                return self._class(alternative, name, source)
            case Enumeration():
                return _literal(alternative.values)

    def _class(self, objects: Object, name: str, source: str) -> str:
        while name in self.names:
            name += "_"
        self.names.add(name)
        properties: list[_Property] = []
        attributes: set[str] = set()
        for key, values in objects.properties.items():
            if values.is_empty:
                continue
            attribute = _attribute(key)
            while attribute in attributes:
                attribute += "_"
            attributes.add(attribute)
            if attribute != key and self.style == "dataclass":
                raise Invalid(
                    f"{source}: the property {key!r} cannot be a field of a dataclass; choose the style msgspec or pydantic"
                )
            kind = self._type(values, name + _pascal(key), f"{key} of {source}")
            properties.append(_Property(key, attribute, kind, key in objects.required))
        # Fields without a default come first.
        properties.sort(key=lambda entry: not entry.is_required)
        self.classes.append(_Class(name, source, tuple(properties)))
        return name

    def text(self) -> str:
        bodies = [_print_class(entry, self.style) for entry in self.classes] + self.aliases
        base = [_PYDANTIC_BASE] if self.style == "pydantic" and self.classes else []
        code = "\n\n".join([*base, *bodies])
        used = [line for word, line in _IMPORTS.items() if re.search(rf"\b{word}\b", re.sub(r'"[^"\n]*"', "", code))]
        headers = [line for line in _HEADERS[self.style] if line.split()[-1] in code]
        # Do not write `from __future__ import annotations`: msgspec and pydantic would have to find the names again.
        standard = sorted({*used, *(line for line in headers if line.startswith("from"))})
        others = [line for line in headers if line.startswith("import")]
        imports = "\n".join([*standard, *([""] if standard and others else []), *others])
        parts = [
            '"""Payloads of events. Generated by `headrace event-type codegen`; do not edit."""\n',
            *([f"{imports}\n"] if imports else []),
        ]
        return "\n".join(parts) + "\n\n" + code


def _print_class(entry: _Class, style: Style) -> str:
    head = {
        "dataclass": f"@dataclass(kw_only=True)\nclass {entry.name}:",
        "msgspec": f"class {entry.name}(msgspec.Struct, kw_only=True):",
        "pydantic": f"class {entry.name}(Payload):",
    }[style]
    lines = [head, f"    {_docstring(entry.source)}", ""]
    lines += [f"    {_print_property(item, style)}" for item in entry.properties]
    return "\n".join(lines if entry.properties else lines[:-1]) + "\n"


def _print_property(item: _Property, style: Style) -> str:
    if style == "pydantic":
        kind = item.type if item.is_required or item.type == "Any" or item.type.endswith("None") else f"{item.type} | None"
        options = [
            *([] if item.is_required else ["default=None"]),
            *([f"alias={item.name!r}"] if item.attribute != item.name else []),
        ]
        plain = "" if item.is_required else " = None"
        return f"{item.attribute}: {kind}" + (
            f" = pydantic.Field({', '.join(options)})" if item.attribute != item.name else plain
        )
    kind = item.type if item.is_required or item.type == "Any" else f"{item.type} | msgspec.UnsetType"
    if item.attribute != item.name:
        default = "" if item.is_required else "default=msgspec.UNSET, "
        return f"{item.attribute}: {kind} = msgspec.field({default}name={item.name!r})"
    return f"{item.attribute}: {kind}" + ("" if item.is_required else " = msgspec.UNSET")


def _group(alternative: Alternative) -> str:
    match alternative:
        case Enumeration():
            kinds = {type(value) for value in alternative.values} - {type(None)}
            if not kinds <= {str, int, bool} or len(kinds) > 1 or bool in kinds:
                return "mixed"
            return {str: "String", int: "Number"}.get(next(iter(kinds), str), "mixed")
        case _:
            return type(alternative).__name__


def _literal(values: list[JsonValue]) -> str:
    listed = ", ".join(_quote(value) for value in values if value is not None)
    parts = [f"Literal[{listed}]"] if listed else []
    return " | ".join([*parts, *(["None"] if None in values else [])])


def _quote(value: JsonValue) -> str:
    text = repr(value)
    return text if not isinstance(value, str) or "'" in value or '"' in value else f'"{text[1:-1]}"'


def _docstring(text: str) -> str:
    safe = "".join(char if char.isprintable() and char not in '\\"' else "?" for char in text)
    return f'"""{safe[:1].upper()}{safe[1:]}."""'


def _pascal(name: str) -> str:
    words = [word for word in re.split(r"[^0-9A-Za-z]+", re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name)) if word]
    text = "".join(word[0].upper() + (word[1:].lower() if word.isupper() else word[1:]) for word in words) or "Value"
    return f"_{text}" if text[0].isdigit() else text


def _attribute(name: str) -> str:
    text = re.sub(r"\W", "_", name, flags=re.ASCII) or "_"
    if text[0].isdigit() or text.startswith("_"):
        text = f"field_{text.lstrip('_')}"
    return f"{text}_" if keyword.iskeyword(text) or text in _IMPORTS or text in ("msgspec", "pydantic") else text
