"""Many correlators over one read: fields are extracted once, and the rows of a key are sorted once for all its correlators.

Correlators with the same key and topic are a *group*: a row holds the symbols of an event for every correlator of the group.
With several groups, an event becomes one row per group that it can matter to, and all of them go through one shuffle and one sort."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from headrace.lang.condition import Field, spark_literal
from headrace.lang.ecl import SimpleTable
from headrace.spark.correlate.symbols import Classifier, CorrelatorSpec, build_classifier, extractions
from headrace.spark.match import with_emitted_at

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from headrace.spark.correlate.stepping import Member

TIME = "unix_micros(appended_at) as time"
_PLACE = ("`offset`", TIME, "event_id")


@dataclass(frozen=True)
class Group:
    """Correlators with one key and one topic. The symbols of the i-th are in the columns from `first_columns[i]` on."""

    key: str | None
    topic: str | None
    numbers: list[int] = field(default_factory=list)
    classifiers: list[Classifier] = field(default_factory=list)
    since_offsets: list[int] = field(default_factory=list)
    forgets: list[bool] = field(default_factory=list)

    @property
    def symbols(self) -> list[str]:
        return [symbol for classifier in self.classifiers for symbol in classifier.symbols]

    @property
    def facts(self) -> list[tuple[str, ...]]:
        """Of the correlators with registers, in their order."""
        return [classifier.facts for classifier in self.classifiers if classifier.facts]

    def facts_column(self, at: int) -> str | None:
        """The column with the facts of the i-th correlator; None if it has no registers."""
        if not self.classifiers[at].facts:
            return None
        return f"facts{sum(bool(classifier.facts) for classifier in self.classifiers[:at])}"

    @property
    def first_columns(self) -> list[int]:
        return [sum(len(before.symbols) for before in self.classifiers[:at]) for at in range(len(self.classifiers))]

    def idle_symbols(self, at: int) -> list[int]:
        """Symbols that change nothing in any state. With timers every event counts, since an instance starts with its first."""
        table = self.classifiers[at].table
        return [] if self.forgets[at] or not table.simple else list(SimpleTable.of(table).idle)

    def condition(self, key: str, columns: Sequence[str]) -> str:
        """The rows that can matter to a correlator of the group."""
        conditions = [f"{key} is not null"]
        idle = [
            f"{columns[first]} in ({', '.join(map(str, symbols))})" if (symbols := self.idle_symbols(at)) else ""
            for at, first in enumerate(self.first_columns)
        ]
        if all(idle):
            conditions.append(f"not ({' and '.join(idle)})")
        return " and ".join(conditions) or "true"

    def filter(self) -> str:
        """Which events the group reads at all."""
        filters = [f"topic = {spark_literal(self.topic)}"] if self.topic is not None else []
        filters += [f"`offset` >= {min(self.since_offsets)}"] if min(self.since_offsets) else []
        return " and ".join(filters) or "true"


def build_groups(specs: Sequence[CorrelatorSpec]) -> tuple[list[Group], dict[Field, str]]:
    """The groups, and the columns of the fields that they share."""
    columns: dict[Field, str] = {}
    groups: dict[tuple[str | None, str | None], Group] = {}
    for number, spec in enumerate(specs):
        group = groups.setdefault((spec.key, spec.topic), Group(spec.key, spec.topic))
        group.numbers.append(number)
        group.classifiers.append(build_classifier(spec, columns))
        group.since_offsets.append(spec.since_offset)
        group.forgets.append(spec.forgets)
    return list(groups.values()), columns


def classify_groups(df: DataFrame, groups: Sequence[Group], columns: Mapping[Field, str]) -> DataFrame:
    """The events that can matter: key, the symbols s0, s1, …, offset, time and event_id; with several groups also `group_number`."""
    # Few steps: Spark analyses the frame again at each.
    filters = list(dict.fromkeys(group.filter() for group in groups))
    events = df if "true" in filters else df.where(" or ".join(f"({condition})" for condition in filters))
    fields = extractions(columns)
    extracted = with_emitted_at(events, {field.root for field in columns}).selectExpr("*", *fields) if fields else events
    names = [f"s{number}" for number in range(max(len(group.symbols) for group in groups))]
    if len(groups) == 1:
        (group,) = groups
        symbols = [f"{sql} as {name}" for sql, name in zip(group.symbols, names, strict=True)]
        symbols += [f"array({', '.join(facts)}) as facts{number}" for number, facts in enumerate(group.facts)]
        rows = extracted.selectExpr(f"{group.classifiers[0].key} as key", *symbols, *_PLACE)
        condition = group.condition("key", names)
        return rows if condition == "true" else rows.where(condition)
    facts_count = max(len(group.facts) for group in groups)
    structs = ", ".join(_struct(number, group, names, facts_count) for number, group in enumerate(groups))
    rows = extracted.selectExpr(f"inline(array({structs}))", *_PLACE)
    conditions = [f"(group_number = {number} and {group.condition('key', names)})" for number, group in enumerate(groups)]
    return rows.where(" or ".join(conditions))


def _struct(number: int, group: Group, names: Sequence[str], facts_count: int) -> str:
    # An event of another topic gets no key, and so no row.
    key = group.classifiers[0].key
    own_key = key if group.filter() == "true" else f"if({group.filter()}, {key}, null)"
    symbols = [*group.symbols, *["0"] * (len(names) - len(group.symbols))]
    values = ", ".join(f"'{name}', {sql}" for name, sql in zip(names, symbols, strict=True))
    arrays = [f"array({', '.join(facts)})" for facts in group.facts]
    arrays += ["cast(null as array<string>)"] * (facts_count - len(arrays))
    values += "".join(f", 'facts{at}', {sql}" for at, sql in enumerate(arrays))
    return f"named_struct('group_number', {number}, 'key', {own_key}, {values})"


def run_groups(
    rows: DataFrame, groups: Sequence[Group], specs: Sequence[CorrelatorSpec], untils: Sequence[int | None]
) -> DataFrame:
    """Steps classified rows; returns the outputs with the number of their correlator."""
    from pyspark.sql.pandas.types import from_arrow_schema

    from headrace.spark.correlate.order import by_key
    from headrace.spark.correlate.stepping import NUMBERED_SCHEMA, step_members

    members = [_members(group, specs, untils) for group in groups]

    def step(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return step_members(batches, members)

    is_one_stream = len(groups) == 1 and groups[0].key is None
    ordered = rows.repartition(1).sortWithinPartitions("offset") if is_one_stream else by_key(rows)
    return ordered.mapInArrow(step, from_arrow_schema(NUMBERED_SCHEMA))


def _members(group: Group, specs: Sequence[CorrelatorSpec], untils: Sequence[int | None]) -> list[Member]:
    from headrace.spark.correlate.stepping import Member

    members = [
        Member(
            number=number,
            table=specs[number].table,
            columns=tuple(f"s{first + at}" for at in range(len(classifier.symbols))),
            facts=group.facts_column(place),
            idle=tuple(group.idle_symbols(place)),
            since_offset=specs[number].since_offset,
            evidence_max=specs[number].evidence_max,
            forgets=specs[number].forgets,
            until=untils[number],
        )
        for place, (number, first, classifier) in enumerate(
            zip(group.numbers, group.first_columns, group.classifiers, strict=True)
        )
    ]
    # Spark has filtered already for a correlator that is alone in its group.
    return members if len(members) > 1 else [replace(members[0], idle=(), since_offset=0)]
