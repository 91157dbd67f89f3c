"""Classification of a batch: which rules fire on which events, and the key and symbols of every event for each group of correlators."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headrace.evaluate.columns import Column, FieldReader, Integers, Texts
from headrace.evaluate.conditions import TRUE, BatchTruths, Conditions, RuleIndex, fold_constants
from headrace.evaluate.specs import CorrelatorSpec, RuleSpec
from headrace.lang.condition import (
    Compare,
    Constant,
    Extraction,
    Field,
    Junction,
    Node,
    Type,
    Value,
    compile_node,
    fields_of,
    parse,
    parse_scalar,
    with_slots,
)
from headrace.lang.ecl import KEY_BYTES_MAX, Decision, SimpleTable, Table, condition_fields, to_condition_tree

ROWS_MAX = 100
"""On more rows than this, whole columns are faster than a rule's own function."""
_TYPE = Field("type", (), Extraction.TEXT)
_TRUTH_FACTS = pa.array(["false", None, "true"], pa.string())


def rule_tree(spec: RuleSpec) -> Node:
    """When a rule fires, its event type included."""
    is_type = Compare("=", _TYPE, Constant(spec.event_type, Type.TEXT))
    condition = fold_constants(parse(spec.condition).tree)
    clauses = condition.operands if isinstance(condition, Junction) and condition.word == "and" else (condition,)
    return Junction("and", (is_type, *clauses))


class _Rule:
    def __init__(self, tree: Node, since_offset: int) -> None:
        self.tree = tree
        self.since_offset = since_offset
        self._fields = fields_of(tree)
        slots = {field: number for number, field in enumerate(self._fields)}
        self._function = cast("Callable[[Sequence[Value | None]], bool | None]", compile_node(with_slots(tree, slots)))

    def fires(self, rows: NDArray[np.int64], columns: Mapping[Field, Column]) -> NDArray[np.int64]:
        """On which of a few rows the rule fires."""
        values = zip(*(columns[field].at(rows) for field in self._fields), strict=True)
        return rows[[self._function(row) is True for row in values]]


@dataclass(frozen=True)
class Group:
    """Correlators with one key. Their symbols are packed into one number: `radices` has the size of each alphabet, in order."""

    key: Node | None
    numbers: tuple[int, ...]
    tables: tuple[Table, ...]
    forgets: tuple[bool, ...]
    since_offset: int
    """The least of its correlators: earlier events matter to none of them."""

    @property
    def radices(self) -> list[int]:
        return [alphabet.size for table in self.tables if table.registers is None for alphabet in table.alphabets]

    def unpack(self, packed: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """A column of symbols per alphabet."""
        columns = []
        for radix in self.radices:
            columns.append(packed % radix)
            packed = packed // radix
        return columns

    def events(self, rows: pa.Table) -> Iterator[tuple[int, pa.Table]]:
        """The rows of the group as each correlator steps them: key, symbol…, offset, time, event_id (null where the rows have
        none), facts."""
        symbols = iter(self.unpack(rows["symbols"].to_numpy()))
        common = {name: rows[name] for name in ("key", "offset", "time")}
        common["event_id"] = rows["event_id"] if "event_id" in rows.column_names else pa.nulls(rows.num_rows, pa.string())
        for place, (number, table) in enumerate(zip(self.numbers, self.tables, strict=True)):
            if table.registers is not None:
                columns = {"symbol": pa.array(np.zeros(rows.num_rows, np.int64)), "facts": rows[f"facts{place}"]}
            else:
                columns = {f"symbol{at or ''}": pa.array(next(symbols)) for at in range(len(table.alphabets))}
            yield number, pa.table({**common, **columns})


def make_groups(specs: Sequence[CorrelatorSpec]) -> list[Group]:
    """The groups of correlators. Those of one key share a group as long as their symbols fit into one number."""
    groups: list[list[int]] = []
    sizes: list[int] = []
    for number, spec in enumerate(specs):
        table = spec.table
        size = 1 if table.registers else int(np.prod([alphabet.size for alphabet in table.alphabets], dtype=object))
        for at, members in enumerate(groups):
            if specs[members[0]].key == spec.key and sizes[at] * size < 2**62:
                members.append(number)
                sizes[at] *= size
                break
        else:
            groups.append([number])
            sizes.append(size)
    return [
        Group(
            None if (key := specs[members[0]].key) is None else parse_scalar(key),
            tuple(members),
            tuple(specs[number].table for number in members),
            tuple(specs[number].forgets for number in members),
            min(specs[number].since_offset for number in members),
        )
        for members in groups
    ]


class Classifier:
    """Classifies batches of events for rules and correlators; a worker has one for all its batches."""

    def __init__(self, rules: Sequence[RuleSpec], groups: Sequence[Group], *, is_log: bool = True) -> None:
        self._rules = [_Rule(rule_tree(rule), rule.since_offset) for rule in rules]
        self._groups = [_GroupClassifier(group) for group in groups]
        self._index = RuleIndex([rule.tree for rule in self._rules])
        self._conditions = Conditions(
            [*(rule.tree for rule in self._rules), *(node for group in self._groups for node in group.trees)]
        )
        fields = [*self._conditions.fields, *(field for group in self._groups for field in group.fields)]
        self._reader = FieldReader(fields, is_log=is_log)

    @property
    def roots(self) -> frozenset[str]:
        """What the classifier reads of events."""
        return frozenset(field.root for field in self._reader.fields)

    def classify(self, batch: pa.RecordBatch) -> ClassifiedBatch:
        columns = self._reader.read(batch)
        truths = self._conditions.over(columns, batch.num_rows)
        return ClassifiedBatch(batch, columns, truths, self._rules, self._index, self._groups)


@dataclass(frozen=True)
class ClassifiedBatch:
    batch: pa.RecordBatch
    columns: Mapping[Field, Column]
    truths: BatchTruths
    rules: Sequence[_Rule]
    index: RuleIndex
    groups: Sequence[_GroupClassifier]

    def firings(self) -> Iterator[tuple[int, NDArray[Any]]]:
        """The rows on which each rule fires; rules that cannot fire in this batch are left out."""
        offsets = self.batch.column("offset").to_numpy()
        fired: dict[int, NDArray[Any]] = {}
        rows: NDArray[Any]
        for number, candidates in self.index.candidates(self.columns):
            rule = self.rules[number]
            if candidates is None or candidates.size > ROWS_MAX:
                holds = self.truths.evaluate(rule.tree) == TRUE
                rows = np.flatnonzero(holds) if candidates is None else candidates[holds[candidates]]
            else:
                rows = rule.fires(candidates, self.columns)
            if rule.since_offset:
                rows = rows[offsets[rows] >= rule.since_offset]
            if rows.size:
                fired[number] = np.sort(rows)
        yield from sorted(fired.items())

    def group_rows(self) -> Iterator[tuple[int, pa.Table]]:
        """Per group the events that can matter to it: key, symbols, facts…, offset, time."""
        for number, group in enumerate(self.groups):
            yield number, group.rows(self)


class _GroupClassifier:
    def __init__(self, group: Group) -> None:
        self._group = group
        self._predicates = [
            [fold_constants(to_condition_tree(predicate)) for predicate in table.predicates] if table.registers is None else []
            for table in group.tables
        ]
        self._static = [
            [fold_constants(parse(text).tree) for text in table.program.static] if table.program else [] for table in group.tables
        ]
        self.trees: list[Node] = [node for trees in (*self._predicates, *self._static) for node in trees]
        self._key_fields = fields_of(group.key) if group.key is not None else ()
        self._key_function = None
        if group.key is not None and not isinstance(group.key, Field):
            self._key_function = compile_node(
                with_slots(group.key, {field: number for number, field in enumerate(self._key_fields)})
            )
        self._idle = [
            None
            if forgets or not table.simple
            else np.isin(np.arange(table.alphabets[0].size), SimpleTable.from_table(table).idle)
            for table, forgets in zip(group.tables, group.forgets, strict=True)
        ]

    @property
    def fields(self) -> list[Field]:
        of_tables = [field for table in self._group.tables for field in condition_fields(table)]
        return [*self._key_fields, *of_tables, _TYPE]

    def rows(self, classified: ClassifiedBatch) -> pa.Table:
        batch, truths = classified.batch, classified.truths
        keys = self._keys(classified)
        packed = np.zeros(batch.num_rows, np.int64)
        matters = np.zeros(batch.num_rows, bool)
        radix = 1
        for table, trees, idle in zip(self._group.tables, self._predicates, self._idle, strict=True):
            if table.registers is not None:
                matters[:] = True
                continue
            for alphabet in table.alphabets:
                symbols = _symbols(alphabet.types, alphabet.other, trees, truths, classified.columns)
                packed += symbols * radix
                radix *= alphabet.size
                matters |= True if idle is None else ~idle[symbols]
        if self._group.since_offset:
            matters &= batch.column("offset").to_numpy() >= self._group.since_offset
        if self._group.key is not None:
            matters &= keys.is_valid().to_numpy(zero_copy_only=False)
        columns = {
            "key": keys,
            "symbols": pa.array(packed),
            "offset": batch.column("offset"),
            "time": batch.column("appended_at").cast(pa.int64()),
        }
        if "event_id" in batch.schema.names:
            columns["event_id"] = batch.column("event_id")
        for number, (table, trees) in enumerate(zip(self._group.tables, self._static, strict=True)):
            if table.program is not None:
                columns[f"facts{number}"] = _facts(table, trees, truths, classified.columns)
        rows = pa.table(columns)
        return rows if matters.all() else rows.take(pa.array(np.flatnonzero(matters)))

    def _keys(self, classified: ClassifiedBatch) -> pa.StringArray:
        key = self._group.key
        if key is None:
            return pa.repeat(pa.scalar("", pa.string()), classified.batch.num_rows)
        columns = [classified.columns[field] for field in self._key_fields]
        if isinstance(key, Field) and isinstance(columns[0], Texts):
            keys = columns[0].values.cast(pa.string())
            return keys if key.root == "key" else _shorten(keys)
        values: Iterable[Value | None] = columns[0].to_list()
        if self._key_function is not None:
            function = cast("Callable[[Sequence[Value | None]], Value | None]", self._key_function)
            values = [function(row) for row in zip(*(column.to_list() for column in columns), strict=True)]
        return _shorten(pa.array([_key_text(value) for value in values], pa.string()))


def _key_text(value: Value | None) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    return None if value is None else str(value)


def _shorten(keys: pa.StringArray) -> pa.StringArray:
    """Long keys as their checksum, as in the database, whose index they must fit into."""
    longest = pc.max(pc.binary_length(keys)).as_py()
    if longest is None or longest <= KEY_BYTES_MAX:
        return keys
    texts = (
        text
        if text is None or len(encoded := text.encode()) <= KEY_BYTES_MAX
        else f"sha256:{hashlib.sha256(encoded).hexdigest()}"
        for text in keys.to_pylist()
    )
    return pa.array(list(texts), pa.string())


def _symbols(
    types: Mapping[str, Decision],
    other: Decision,
    trees: Sequence[Node],
    truths: BatchTruths,
    columns: Mapping[Field, Column],
) -> NDArray[np.int64]:
    def decide(decision: Decision) -> NDArray[np.int64]:
        if isinstance(decision, int):
            return np.array(decision, np.int64)
        holds = truths.evaluate(trees[decision.predicate]) == TRUE
        return np.where(holds, decide(decision.yes), decide(decision.no))

    type_column = columns[_TYPE]
    assert isinstance(type_column, Texts)
    codes, texts = type_column.dictionary
    decisions = [*(types.get(name, other) for name in texts.to_pylist()), other]
    # Most types have one symbol, whatever is in their events.
    symbols = np.array([decision if isinstance(decision, int) else -1 for decision in decisions], np.int64)[codes]
    if not isinstance(other, int):
        symbols = np.where(symbols < 0, decide(other), symbols)
    for code, decision in enumerate(decisions):
        if decision is not other and not isinstance(decision, int):
            symbols = np.where(codes == code, decide(decision), symbols)
    return symbols


def _facts(table: Table, trees: Sequence[Node], truths: BatchTruths, columns: Mapping[Field, Column]) -> pa.ListArray:
    """The facts of every event: its type, the truths of the conditions that read it alone, and the fields that registers need."""
    assert table.program is not None
    parts = [_fact_texts(columns[_TYPE])]
    parts += [_TRUTH_FACTS.take(pa.array(truths.evaluate(tree))) for tree in trees]
    parts += [_fact_texts(columns[field]) for field in table.program.fields]
    rows, width = len(parts[0]), len(parts)
    # Change from column by column to event by event.
    order = np.arange(rows * width).reshape(width, rows).T.ravel()
    return pa.ListArray.from_arrays(
        pa.array(np.arange(0, rows * width + 1, width), pa.int32()), pa.concat_arrays(parts).take(pa.array(order))
    )


def _fact_texts(column: Column) -> pa.StringArray:
    if isinstance(column, Texts):
        return column.values.cast(pa.string())
    if isinstance(column, Integers):
        return pa.array(column.values, mask=~column.is_known).cast(pa.string())
    return pa.array([_key_text(value) for value in column.to_list()], pa.string())
