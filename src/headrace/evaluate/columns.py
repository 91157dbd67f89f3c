"""Fields of events as columns: the payloads of a batch are decoded once, only where a field is read.

Promises: the values that the condition language's own Python extraction gives. Where all values of a name have the type that the fields
ask for, they go from JSON to Arrow without it; a batch with another value is extracted event by event."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field as dataclass_field
from datetime import UTC, datetime
from decimal import Decimal
from functools import cached_property
from operator import attrgetter
from typing import Any, cast

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headrace.lang.condition import Extraction, Field, Subject, Type, Value, compile_field, decode_json

_BOUNDS = {Extraction.INT: (-(2**31), 2**31 - 1), Extraction.BIGINT: (-(2**63) + 1, 2**63 - 1)}
_PLAIN = {Extraction.TEXT: str | None, Extraction.INT: int | None, Extraction.BIGINT: int | None}
"""Extractions of a value at the top of the payload that need no conversion, with its type in JSON."""
_UNUSUAL = re.compile(r'[\\"\x00-\x1f]')
_WHOLE = msgspec.json.Decoder(list[Any], float_hook=Decimal)
_ANY_JSON = msgspec.json.Decoder(msgspec.Raw)


@dataclass
class Integers:
    """Whole numbers, or moments in microseconds."""

    values: NDArray[np.int64]
    is_known: NDArray[np.bool_]

    @cached_property
    def distinct(self) -> tuple[NDArray[np.int64], list[Value | None]]:
        known, codes = np.unique(self.values, return_inverse=True)
        return np.where(self.is_known, codes, known.size), [*known.tolist(), None]

    def to_list(self) -> list[Value | None]:
        return [value if known else None for value, known in zip(self.values.tolist(), self.is_known.tolist(), strict=True)]

    def at(self, rows: NDArray[Any]) -> list[Value | None]:
        """The values of some rows."""
        return Integers(self.values[rows], self.is_known[rows]).to_list()


@dataclass
class Texts:
    """Texts, as they are or as a dictionary; null is unknown."""

    values: pa.StringArray | pa.DictionaryArray

    @cached_property
    def dictionary(self) -> tuple[NDArray[np.int64], pa.StringArray]:
        """A number per row, and the distinct texts by number; the number after the last is unknown."""
        encoded = pc.dictionary_encode(self.values)
        codes = pc.fill_null(encoded.indices.cast(pa.int64()), len(encoded.dictionary))
        return codes.to_numpy(zero_copy_only=False), encoded.dictionary

    @cached_property
    def distinct(self) -> tuple[NDArray[np.int64], list[Value | None]]:
        codes, texts = self.dictionary
        return codes, [*texts.to_pylist(), None]

    def to_list(self) -> list[Value | None]:
        return cast("list[Value | None]", self.values.to_pylist())

    def at(self, rows: NDArray[Any]) -> list[Value | None]:
        """The values of some rows."""
        codes, texts = self.distinct
        return [texts[code] for code in codes[rows].tolist()]


@dataclass
class Values:
    """Values of any other type."""

    values: list[Value | None]

    @cached_property
    def distinct(self) -> tuple[NDArray[np.int64], list[Value | None]]:
        # Compare types, too: to Python, true and 1 are equal.
        numbers: dict[tuple[type[object], Value | None], int] = {}
        codes = [numbers.setdefault((type(value), value), len(numbers)) for value in self.values]
        return np.array(codes, np.int64), [value for _, value in numbers]

    def to_list(self) -> list[Value | None]:
        return self.values

    def at(self, rows: NDArray[Any]) -> list[Value | None]:
        """The values of some rows."""
        return [self.values[row] for row in rows.tolist()]


Column = Integers | Texts | Values


@dataclass(slots=True)
class _Event:
    """One event at a time, as the extraction of the condition language reads it."""

    payload: Any = None
    type: str = ""
    key: str | None = None
    headers: Mapping[str, Any] = dataclass_field(default_factory=dict)
    emitted_at: datetime = datetime(1970, 1, 1, tzinfo=UTC)


class FieldReader:
    """Reads some fields from batches of events. `is_log`: payloads and headers are the log's, so all of them are JSON."""

    def __init__(self, fields: Iterable[Field], *, is_log: bool = True) -> None:
        self.fields = tuple(dict.fromkeys(fields))
        self._is_log = is_log
        in_payload = [field for field in self.fields if field.root == "object"]
        self._is_whole = any(not _has_plain_name(field) for field in in_payload)
        names = list(dict.fromkeys(str(field.path[0]) for field in in_payload)) if not self._is_whole else []
        self._attributes = {name: f"f{number}" for number, name in enumerate(names)}
        types = {name: _json_type([field for field in in_payload if field.path[0] == name]) for name in names}
        self._plain = {name for name, type_ in types.items() if type_ is not Any}
        self._strict = self._decoder(types)
        self._loose = self._decoder(dict.fromkeys(names, Any))
        self._functions = {field: compile_field(field) for field in self.fields}

    def _decoder(self, types: Mapping[str, Any]) -> msgspec.json.Decoder[list[Any]]:
        defaults = {name: msgspec.UNSET if type_ is Any else None for name, type_ in types.items()}
        columns = [(self._attributes[name], type_, defaults[name]) for name, type_ in types.items()]
        rename = {attribute: name for name, attribute in self._attributes.items()}
        struct = msgspec.defstruct("Payload", columns, rename=rename, gc=False)
        return msgspec.json.Decoder(cast(Any, list)[struct], float_hook=Decimal)

    def read(self, batch: pa.RecordBatch) -> dict[Field, Column]:
        """The columns of the fields."""
        columns: dict[Field, Column] = {}
        in_payload = [field for field in self.fields if field.root == "object"]
        if in_payload:
            columns |= self._read_payloads(in_payload, self._json_texts(batch.column("payload")))
        for field in self.fields:
            if field.root != "object":
                columns[field] = self._read_column(field, batch)
        return columns

    def _json_texts(self, column: pa.StringArray) -> list[str]:
        texts = column.to_pylist()
        # Together they are decoded as one text, so that one which is no JSON would change the meaning of others.
        return texts if self._is_log else list(map(_valid_json, texts))

    def _read_payloads(self, fields: Sequence[Field], payloads: Sequence[str]) -> dict[Field, Column]:
        text = "[" + ",".join(payloads) + "]"
        if not self._is_whole:
            for decoder, is_strict in ((self._strict, True), (self._loose, False)):
                try:
                    rows = decoder.decode(text)
                    return {field: self._column(field, rows, is_strict=is_strict) for field in fields}
                except (msgspec.ValidationError, pa.ArrowException, OverflowError):
                    continue
        whole = _WHOLE.decode(text)
        return {
            field: _make_column(field.type, self._extract(field, ({"payload": value} for value in whole))) for field in fields
        }

    def _column(self, field: Field, rows: Sequence[object], *, is_strict: bool) -> Column:
        name = str(field.path[0])
        attribute = self._attributes[name]
        values = list(map(attrgetter(attribute), rows))
        if is_strict and name in self._plain:
            if field.extraction is Extraction.TEXT:
                return Texts(pa.array(values, pa.string()))
            return _bounded(pa.array(values, pa.int64()), *_BOUNDS[field.extraction])
        payloads: Iterable[dict[str, Any]] = ({"payload": {} if value is msgspec.UNSET else {name: value}} for value in values)
        return _make_column(field.type, self._extract(field, payloads))

    def _read_column(self, field: Field, batch: pa.RecordBatch) -> Column:
        if field.root == "emitted_at":
            moments = batch.column("timestamp").cast(pa.int64()).to_numpy(zero_copy_only=False)
            return Integers(moments, np.ones(batch.num_rows, bool))
        column = batch.column(field.root)
        if field.extraction is Extraction.TEXT and field.root in ("type", "key"):
            return Texts(column)
        values = [decode_json(text) for text in self._json_texts(column)] if field.root == "headers" else column.to_pylist()
        return _make_column(field.type, self._extract(field, ({field.root: value} for value in values)))

    def _extract(self, field: Field, events: Iterable[Mapping[str, Any]]) -> list[Value | None]:
        function = self._functions[field]
        event = _Event()
        extracted = []
        for attributes in events:
            for name, value in attributes.items():
                setattr(event, name, value)
            extracted.append(function(cast(Subject, event)))
        return extracted


def _valid_json(text: str | None) -> str:
    """A payload of a frame, whose rows may come from anywhere; null if it is no JSON."""
    if text is None:
        return "null"
    try:
        _ANY_JSON.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return "null"
    return text


def _has_plain_name(field: Field) -> bool:
    """True if the field is below a name of the payload that the decoder of structs takes."""
    return bool(field.path) and isinstance(field.path[0], str) and _UNUSUAL.search(field.path[0]) is None


def _json_type(fields: Sequence[Field]) -> Any:
    """The one JSON type that all fields of a name ask for; Any where they differ, or convert."""
    types = {_PLAIN.get(field.extraction, Any) if len(field.path) == 1 else Any for field in fields}
    return types.pop() if len(types) == 1 else Any


def _bounded(array: pa.Array, low: int, high: int) -> Integers:
    values = pc.fill_null(array, 0).to_numpy(zero_copy_only=False)
    return Integers(values, array.is_valid().to_numpy(zero_copy_only=False) & (values >= low) & (values <= high))


def _make_column(type_: Type, values: list[Value | None]) -> Column:
    if type_ is Type.TEXT:
        return Texts(pa.array(values, pa.string()))
    if type_ in (Type.INTEGER, Type.TIMESTAMPTZ):
        array = pa.array(values, pa.int64())
        return Integers(pc.fill_null(array, 0).to_numpy(zero_copy_only=False), array.is_valid().to_numpy(zero_copy_only=False))
    return Values(values)
