"""Options of the source, read and checked once, before anything runs. Names and values follow Kafka's source."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from headrace.core import Invalid
from headrace.lang.condition import parse
from headrace.log.archive import RowFilter
from headrace.log.arrow import Extract
from headrace.spark.credentials import OPTIONS, Access
from headrace.spark.schema import EVENT_COLUMNS
from headrace.spark.source.payload_types import parse_ddl

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

Positions = dict[tuple[str, str], int]
"""Positions by shard and topic."""
EARLIEST, LATEST = -2, -1
"""Kafka's numbers for both in an offset."""
_Position = Annotated[int, msgspec.Meta(ge=EARLIEST)]


@dataclass(frozen=True)
class Bound:
    """Where reading begins or ends: earliest, latest, a position per shard and topic, or a time of the log."""

    word: str | None = None
    positions: Positions = field(default_factory=dict)
    at: datetime | None = None


def parse_bound(options: Mapping[str, str], side: str) -> Bound | None:
    """The bound in the options of a side, starting or ending; None if there is none."""
    offsets, time = options.get(f"{side}offsets"), options.get(f"{side}timestamp")
    if offsets is not None and time is not None:
        raise Invalid(f"options {side}Offsets and {side}Timestamp exclude each other; give one")
    if time is not None:
        return Bound(at=parse_moment(time, f"{side}Timestamp"))
    if offsets is None:
        return None
    word = offsets.strip().lower()
    if word not in ("earliest", "latest"):
        return Bound(positions=_parse_positions(offsets, f"{side}Offsets"))
    if (side, word) == ("ending", "earliest"):
        raise Invalid("endingOffsets cannot be earliest, which would read nothing; give latest or positions")
    return Bound(word)


def _parse_positions(text: str, option: str) -> Positions:
    """From {"shard": {"topic": position}}, or {"topic": position} for a single shard, which then has the name ''."""
    advice = f'{option} takes earliest, latest, or JSON such as {{"orders": 100}} or {{"shard_a": {{"orders": 100}}}}'
    try:
        value = msgspec.json.decode(text, type=dict[str, _Position | dict[str, _Position]])
    except msgspec.DecodeError as error:
        raise Invalid(f"{advice}; a position is at least 0, {EARLIEST} for earliest or {LATEST} for latest: {error}") from None
    topics = {name: position for name, position in value.items() if isinstance(position, int)}
    shards = {name: positions for name, positions in value.items() if isinstance(positions, dict)}
    if topics and shards:
        raise Invalid(advice)
    return from_offset(shards or {"": topics})


def from_offset(offset: Mapping[str, Mapping[str, int]]) -> Positions:
    """From the form {"shard": {"topic": position}} that options and Spark's offsets have."""
    return {(shard, topic): position for shard, topics in offset.items() for topic, position in topics.items()}


def to_offset(positions: Positions) -> dict[str, dict[str, int]]:
    """The opposite, sorted: Spark compares offsets by their text."""
    offset: dict[str, dict[str, int]] = {}
    for (shard, topic), position in sorted(positions.items()):
        offset.setdefault(shard, {})[topic] = position
    return offset


def parse_moment(text: str | None, option: str) -> datetime | None:
    """Kafka's milliseconds since 1970, or RFC 3339. A time without an offset is UTC, so that every process means the same."""
    if text is None:
        return None
    try:
        if re.fullmatch(r"-?\d+", text.strip()):
            return datetime.fromtimestamp(int(text) / 1000, UTC)
        moment = datetime.fromisoformat(text.strip())
    except (ValueError, OverflowError, OSError):
        raise Invalid(
            f"option {option} is not a time: {text!r}; write 2026-01-31T12:00:00Z, or milliseconds since 1970"
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


KNOWN = OPTIONS | {
    *("subscribe", "subscribepattern", "namespace", "startingoffsets", "endingoffsets", "startingtimestamp", "endingtimestamp"),
    *("maxoffsetspertrigger", "minpartitions", "failondataloss", "archive", "columns", "extract", "path", "schema"),
    "where",
    *("types", "keys", "fromtime", "totime", "fromposition", "toposition"),
}
"""Names in lower case."""
REGISTRY = "registry"
OPTIONS_METADATA = "headrace.options"
"""The metadata of a field of the schema in which a table keeps its options."""
_ADVICE = 'write {"city": "address.city"}, {"city": ["address", "city"]} or {"city": {"path": ["address", "city"], "as": "json"}}'


def without_table_properties(options: Mapping[str, str]) -> dict[str, str]:
    """The options with names in lower case, without what Spark adds for a table of its catalog."""
    lowered = {name.lower(): value for name, value in options.items()}
    if "provider" not in lowered:
        return lowered
    own = {name: value for name, value in lowered.items() if f"option.{name}" in lowered}
    return own or {name: value for name, value in lowered.items() if name in KNOWN}


def with_table_options(options: Mapping[str, str], schema: StructType) -> dict[str, str]:
    """The options of a read, and below them those of its table, which the schema remembers."""
    remembered = [field.metadata[OPTIONS_METADATA] for field in schema.fields if OPTIONS_METADATA in (field.metadata or {})]
    return {**(remembered[0] if remembered else {}), **{name.lower(): value for name, value in options.items()}}


_Steps = str | tuple[str, ...]


class _Path(msgspec.Struct, forbid_unknown_fields=True):
    path: _Steps
    kind: Literal["text", "json"] = msgspec.field(default="text", name="as")


@dataclass(frozen=True)
class SourceOptions:
    """All options of a read. Positions from `from_position` to before `to_position` are read."""

    access: Access
    topics: tuple[str, ...]
    pattern: str | None
    namespace: str | None
    starting: Bound | None
    ending: Bound
    rows: RowFilter
    where: str | None
    """A condition of the rules' language; only events for which it is true are read."""
    from_position: int
    to_position: int | None
    columns: tuple[str, ...]
    extracts: tuple[Extract, ...]
    offsets_per_trigger_max: int | None
    partitions_min: int
    fail_on_data_loss: bool
    use_archive: bool
    payload_schema: str | None
    """The type of the payload: `registry`, that of the event type's schema, or columns in DDL; None: JSON text."""
    archive_folder: str | None
    """Where the archive's files are now; None: where they were written."""

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> SourceOptions:
        options = without_table_properties(options)
        access = Access.from_options(options)
        if unknown := sorted(set(options) - KNOWN):
            raise Invalid(f"the source has no option {', '.join(unknown)}; docs/spark.md lists the options")
        if not options:
            raise Invalid(
                "give one of the options subscribe and subscribePattern; there is no option at all. Of a table with columns of its "
                "own, Spark passes none: create it without columns (create table orders using headrace options (…)), or a temporary view"
            )
        topics = _list(options.get("subscribe") or options.get("path"), "subscribe") or ()
        pattern = options.get("subscribepattern")
        if bool(topics) == bool(pattern):
            raise Invalid("give one of the options subscribe (topics, separated by commas) and subscribePattern")
        archive = options.get("archive", "").strip() or "true"
        return cls(
            access=access,
            topics=topics,
            pattern=_check_pattern(pattern),
            namespace=options.get("namespace"),
            starting=parse_bound(options, "starting"),
            ending=parse_bound(options, "ending") or Bound("latest"),
            rows=RowFilter(
                _list(options.get("types"), "types"),
                _list(options.get("keys"), "keys"),
                parse_moment(options.get("fromtime"), "fromTime"),
                parse_moment(options.get("totime"), "toTime"),
            ),
            where=_check_condition(options.get("where")),
            from_position=_number(options, "fromPosition", least=0) or 0,
            to_position=_number(options, "toPosition", least=0),
            columns=_list(options.get("columns"), "columns") or (),
            extracts=_parse_extracts(options.get("extract")),
            offsets_per_trigger_max=_number(options, "maxOffsetsPerTrigger", least=1),
            partitions_min=_number(options, "minPartitions", least=1) or 1,
            fail_on_data_loss=_flag(options, "failOnDataLoss"),
            use_archive=archive.lower() != "false",
            payload_schema=_check_payload_schema(options.get("schema")),
            archive_folder=None if archive.lower() in ("true", "false") else archive,
        )

    @property
    def has_typed_payload(self) -> bool:
        return self.payload_schema is not None

    def subscribes(self, topic: str) -> bool:
        return topic in self.topics if self.pattern is None else re.fullmatch(self.pattern, topic) is not None


def _list(text: str | None, option: str) -> tuple[str, ...] | None:
    """Values separated by commas, or a JSON array if a value contains a comma."""
    if text is None:
        return None
    if not text.lstrip().startswith("["):
        return tuple(word.strip() for word in text.split(",") if word.strip())
    try:
        return msgspec.json.decode(text, type=tuple[str, ...])
    except msgspec.DecodeError as error:
        raise Invalid(f"option {option} starts like a JSON array but is not one of strings: {error}") from None


def _number(options: Mapping[str, str], option: str, *, least: int) -> int | None:
    text = options.get(option.lower())
    if text is None:
        return None
    if not re.fullmatch(r"\d{1,18}", text.strip()) or int(text) < least:
        raise Invalid(f"option {option} is a whole number of at least {least}, not {text!r}")
    return int(text)


def _flag(options: Mapping[str, str], option: str) -> bool:
    text = options.get(option.lower(), "true").strip().lower()
    if text not in ("true", "false"):
        raise Invalid(f"option {option} is true or false, not {text!r}")
    return text == "true"


def _check_payload_schema(text: str | None) -> str | None:
    if text is None:
        return None
    if text.strip().lower() == REGISTRY:
        return REGISTRY
    parse_ddl(text)
    return text


def _check_condition(text: str | None) -> str | None:
    if text is not None:
        parse(text)
    return text


def _check_pattern(text: str | None) -> str | None:
    try:
        re.compile(text or "")
    except re.error as error:
        raise Invalid(f"subscribePattern is not a regular expression: {error}") from None
    return text


def _parse_extracts(text: str | None) -> tuple[Extract, ...]:
    """Reads the option: a JSON object of names and paths; a path is `a.b`, a list, or an object with `path` and `as`."""
    if text is None:
        return ()
    try:
        paths = msgspec.json.decode(text, type=dict[str, _Steps | _Path])
    except msgspec.DecodeError as error:
        raise Invalid(f"option extract cannot be read: {error}; {_ADVICE}") from None
    if clashes := {column.name for column in EVENT_COLUMNS} & paths.keys():
        raise Invalid(f"option extract names {', '.join(sorted(clashes))}, which events have already; choose another name")
    return tuple(_extract(name, path if isinstance(path, _Path) else _Path(path)) for name, path in paths.items())


def _extract(name: str, path: _Path) -> Extract:
    try:
        return Extract.from_path(name, path.path, as_json=path.kind == "json")
    except Invalid as error:
        raise Invalid(f"option {error}; {_ADVICE}") from None
