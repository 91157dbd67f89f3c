"""Options of the source, read and checked once, before anything runs. Names and values follow Kafka's source."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from headrace.core import Invalid
from headrace.spark.credentials import Access
from headrace.spark.source.bounds import Bound, bound_of, moment_of
from headrace.spark.source.extract import Extract, parse_extracts

KNOWN = frozenset(
    {
        "subscribe",
        "subscribepattern",
        "namespace",
        "startingoffsets",
        "endingoffsets",
        "startingtimestamp",
        "endingtimestamp",
        "maxoffsetspertrigger",
        "minpartitions",
        "failondataloss",
        "archive",
        "types",
        "keys",
        "fromtime",
        "totime",
        "fromposition",
        "toposition",
        "columns",
        "extract",
        "service",
        "servicefile",
        "dsnenv",
        "secret",
        "path",
    }
)


@dataclass(frozen=True)
class Filters:
    """What PostgreSQL leaves out. Ranges begin with the first value and end before the second."""

    types: tuple[str, ...] | None = None
    keys: tuple[str, ...] | None = None
    from_time: datetime | None = None
    to_time: datetime | None = None
    from_position: int = 0
    to_position: int | None = None


@dataclass(frozen=True)
class ArchiveUse:
    """Is the archive read where the log has been dropped, and in which folder; None: where its files were written."""

    used: bool = True
    folder: str | None = None

    @classmethod
    def of(cls, told: str | None) -> ArchiveUse:
        word = (told or "true").strip()
        return cls(word.lower() != "false", None if word.lower() in ("true", "false") else word)


@dataclass(frozen=True)
class SourceOptions:
    """Everything a read is told."""

    access: Access
    topics: tuple[str, ...]
    pattern: str | None
    namespace: str | None
    starting: Bound | None
    ending: Bound
    filters: Filters
    columns: tuple[str, ...]
    extracts: tuple[Extract, ...]
    offsets_per_trigger_max: int | None
    partitions_min: int
    fail_on_data_loss: bool
    archive: ArchiveUse

    @classmethod
    def of(cls, options: Mapping[str, str]) -> SourceOptions:
        given = {name.lower(): value for name, value in options.items()}
        access = Access.of(given)
        unknown = sorted(set(given) - KNOWN)
        if unknown:
            raise Invalid(f"the source has no option {', '.join(unknown)}; docs/spark.md lists those it has")
        topics = _listed(given.get("subscribe") or given.get("path"), "subscribe") or ()
        pattern = given.get("subscribepattern")
        if bool(topics) == bool(pattern):
            raise Invalid("give one of the options subscribe (topics, separated by commas) and subscribePattern")
        return cls(
            access,
            topics,
            _pattern(pattern),
            given.get("namespace"),
            bound_of(given, "starting"),
            bound_of(given, "ending") or Bound("latest"),
            _filters(given),
            _listed(given.get("columns"), "columns") or (),
            parse_extracts(given.get("extract")),
            _number(given, "maxoffsetspertrigger", least=1),
            _number(given, "minpartitions", least=1) or 1,
            _flag(given, "failondataloss"),
            ArchiveUse.of(given.get("archive")),
        )

    def wants(self, topic: str) -> bool:
        """Is this topic subscribed to?"""
        return topic in self.topics if self.pattern is None else re.fullmatch(self.pattern, topic) is not None


def _filters(given: Mapping[str, str]) -> Filters:
    return Filters(
        _listed(given.get("types"), "types"),
        _listed(given.get("keys"), "keys"),
        moment_of(given.get("fromtime"), "fromTime"),
        moment_of(given.get("totime"), "toTime"),
        _number(given, "fromposition", least=0) or 0,
        _number(given, "toposition", least=0),
    )


def _listed(text: str | None, option: str) -> tuple[str, ...] | None:
    """Values separated by commas; a JSON array where a value has one in it."""
    if text is None:
        return None
    if not text.lstrip().startswith("["):
        return tuple(word.strip() for word in text.split(",") if word.strip())
    try:
        values = json.loads(text)
    except json.JSONDecodeError as error:
        raise Invalid(f"option {option} begins like a JSON array and is none: {error.msg}") from None
    if not all(isinstance(value, str) for value in values):
        raise Invalid(f"option {option} holds a value that is not a string")
    return tuple(values)


def _number(given: Mapping[str, str], option: str, *, least: int) -> int | None:
    text = given.get(option)
    if text is None:
        return None
    if not re.fullmatch(r"\d{1,18}", text.strip()) or int(text) < least:
        raise Invalid(f"option {option} is a whole number from {least} on, not {text!r}")
    return int(text)


def _flag(given: Mapping[str, str], option: str) -> bool:
    text = given.get(option, "true").strip().lower()
    if text not in ("true", "false"):
        raise Invalid(f"option {option} is true or false, not {text!r}")
    return text == "true"


def _pattern(text: str | None) -> str | None:
    if text is None:
        return None
    try:
        re.compile(text)
    except re.error as error:
        raise Invalid(f"subscribePattern is not a regular expression: {error}") from None
    return text
