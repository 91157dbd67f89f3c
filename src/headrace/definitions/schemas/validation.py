"""Validation of payloads by jsonschema-rs, for all of JSON Schema. It comes with `headrace[schema]`."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

import msgspec

from headrace.core import InvalidSchema, NotFound, PayloadRejected, ValidatedEvent, encode
from headrace.definitions.schemas.value_set import JsonValue, pointer_step, read_json

if TYPE_CHECKING:
    import jsonschema_rs

logger = logging.getLogger(__name__)

_decode = msgspec.json.Decoder().decode
# What a float may not hold exactly: many digits, or a large exponent.
_INEXACT_NUMBER: Final = re.compile(r"\d[\d.]{15}|\d[eE][+-]?\d{3}")

Validation: TypeAlias = Literal["off", "warn", "reject"]
VALIDATIONS: Final[tuple[Validation, ...]] = get_args(Validation)


def load_validator(schema: str) -> jsonschema_rs.Draft202012Validator:
    """The validator of a schema. Raises InvalidSchema, and NotFound where the package is not installed."""
    try:
        import jsonschema_rs
    except ImportError:
        raise NotFound("checking payloads by their schema needs jsonschema-rs; run: pip install 'headrace[schema]'") from None
    try:
        return jsonschema_rs.Draft202012Validator(json.loads(schema))
    except (ValueError, jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError) as error:
        raise InvalidSchema(f"the schema is not valid: {str(error).splitlines()[0]}") from None


@dataclass(frozen=True)
class Violation:
    """What of a payload breaks its schema: where, as a JSON pointer, by which keyword, and in words."""

    path: str
    rule: str
    message: str


def find_violations(validator: Any, payload: JsonValue) -> list[Violation]:
    violations: list[Violation] = []
    for error in validator.iter_errors(payload):
        path = "".join(map(pointer_step, error.instance_path))
        rule = next((str(step) for step in reversed(error.schema_path) if not isinstance(step, int)), "false")
        violations.append(Violation(path, rule, error.message))
    return violations


@dataclass(frozen=True)
class PayloadChecker:
    """The schemas of a namespace at one moment, to check payloads before they are published.

    Publishing with `schemas=checker` checks every rule of a schema, also those that the database has no exact form for."""

    validators: Mapping[str, tuple[Validation, Any]] = field(default_factory=dict)
    digest: str | None = None
    """By it the database recognizes its own schemas, and does not check again what was checked by them."""

    def check_event(self, event: ValidatedEvent) -> ValidatedEvent:
        """Checks the payload of an event. Notes by which schemas, if it keeps them exactly. Raises PayloadRejected."""
        entry = self.validators.get(event.type)
        if entry is not None:
            value = _decode(event.payload)
            if not entry[1].is_valid(value):
                self._report(event.type, event.payload, *entry)
                return event
            # Another text: a number may have lost digits as a float, which the database still has.
            if encode(value) != event.payload:
                return event
        return event if self.digest is None else msgspec.structs.replace(event, schemas_digest=self.digest)

    def check(self, event_type: str, payload: str) -> list[Violation]:
        """Checks a payload's JSON text. Raises PayloadRejected if the type rejects; if it only warns, logs and returns what is broken."""
        entry = self.validators.get(event_type)
        if entry is None or entry[1].is_valid(_decode(payload)):
            return []
        return self._report(event_type, payload, *entry)

    def _report(self, event_type: str, payload: str, validation: Validation, validator: Any) -> list[Violation]:
        # The payload may still be valid: floats come first, which is faster, and where they fail every digit of a number matters.
        violations = find_violations(validator, read_json(payload))
        if violations and validation == "reject":
            raise PayloadRejected(f"{_describe(event_type, violations)}; see: headrace event-type show {event_type}")
        if violations:
            logger.warning("%s; the event is published all the same", _describe(event_type, violations))
        return violations


def schemas_are_exact(texts: Iterable[str]) -> bool:
    """True if no number of these schemas loses digits as a float."""
    return not any(_INEXACT_NUMBER.search(text) for text in texts)


def _describe(event_type: str, violations: list[Violation]) -> str:
    first = violations[0]
    more = f" (and {len(violations) - 1} more)" if len(violations) > 1 else ""
    return f"payload of type {event_type} breaks its schema at {first.path or 'its root'}: {first.rule}: {first.message}{more}"
