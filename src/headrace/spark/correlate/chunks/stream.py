"""A stream that tasks read by themselves: pieces of Parquet files or of the log, which do not go through Spark.

Spark moves two to three million rows a second to Python; Arrow reads ten times as many from a file. So where a frame is nothing
but a read, and a pattern uses nothing but event types, Spark only says who reads what. Promises: the rows are those of the frame.
Where that is not certain (a filter, a partitioned table, another file system, other types in a file) Spark reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from headrace.lang.ecl import Table
from headrace.spark.correlate.symbols import CorrelatorSpec
from headrace.spark.schema import event_schema
from headrace.spark.source import EventReader, SourceOptions, Split, class_name, is_log_relation, read_split, with_table_options

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject  # There may be none with Spark Connect.

PIECE_BYTES_MAX = 256 << 20
"""A task in Python costs a tenth of a second before it begins, which is worth 20 MB of reading."""
FILE_BYTES = 1 << 20
"""The cost of opening a file, as bytes that could be read meanwhile."""
BATCH_ROWS = 1 << 17
TEXT_EXACT_MAX = 60
_TYPES = {"type": "string", "offset": "bigint", "event_id": "string", "topic": "string", "appended_at": "timestamp"}
# Written by a release of Spark that counted old days by another calendar; only Spark itself knows how to read them.
_OLD_CALENDAR = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")


class Unfit(Exception):
    """A file does not match the schema of its frame, so only Spark can read it."""


@dataclass(frozen=True)
class Files:
    """Some Parquet files, one after another; or one of `parts` equal parts of the row groups of a large file."""

    paths: tuple[str, ...]
    part: int = 0
    parts: int = 1

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for path in self.paths:
            file = _open(path, columns)
            count = file.num_row_groups
            groups = list(range(count * self.part // self.parts, count * (self.part + 1) // self.parts))
            if groups:
                yield from file.iter_batches(BATCH_ROWS, row_groups=groups, columns=list(columns), use_threads=False)


@dataclass(frozen=True)
class Positions:
    """A part of a log or of its archive, as the source `headrace` reads it."""

    options: SourceOptions
    split: Split

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return read_split(self.options, event_schema(columns), self.split)


Piece = Files | Positions
"""What one task reads."""


@dataclass(frozen=True)
class Stream:
    """The events of a frame, in pieces, and the symbol of each event type."""

    pieces: tuple[Piece, ...]
    symbols: Mapping[str, int]
    other: int
    topic: str | None = None
    since_offset: int = 0

    def rows(self, number: int) -> Iterator[pa.RecordBatch]:
        """The rows of a piece that the correlator reads: symbol, offset, time in microseconds, event_id."""
        columns = ["type", "offset", "appended_at", "event_id", *(["topic"] if self.topic is not None else [])]
        for batch in self.pieces[number].batches(columns):
            if self.topic is not None:
                batch = batch.filter(pc.equal(batch["topic"], self.topic))
            if self.since_offset:
                batch = batch.filter(pc.greater_equal(batch["offset"], self.since_offset))
            if batch.num_rows:
                time = batch["appended_at"].cast(pa.timestamp("us")).cast(pa.int64())
                arrays = [self._symbols_of(batch["type"]), batch["offset"], time, batch["event_id"]]
                yield pa.RecordBatch.from_arrays(arrays, ["symbol", "offset", "time", "event_id"])

    def _symbols_of(self, types: pa.Array) -> pa.Array:
        """The symbols of a column of types; an event without a type has that of any other."""
        coded = types if isinstance(types, pa.DictionaryArray) else types.dictionary_encode()
        symbols = [self.symbols.get(name, self.other) for name in coded.dictionary.to_pylist()]
        places = coded.indices.fill_null(len(symbols)).to_numpy(zero_copy_only=False)
        return pa.array(np.array([*symbols, self.other], np.int64)[places])


def symbols_of(table: Table) -> tuple[Mapping[str, int], int] | None:
    """The symbol of every type in the pattern, and that of any other type; None where the pattern uses more than types."""
    alphabet, *others = table.alphabets
    if others or not isinstance(alphabet.other, int):
        return None
    symbols = {name: decision for name, decision in alphabet.types.items() if isinstance(decision, int)}
    return (symbols, alphabet.other) if len(symbols) == len(alphabet.types) else None


def stream_of(df: DataFrame, spec: CorrelatorSpec) -> Stream | None:
    """The frame as a stream that tasks can read; None where only Spark can."""
    symbols = symbols_of(spec.table)
    if symbols is None or not _has_usual_types(df):
        return None
    pieces = _pieces(df)
    return Stream(tuple(pieces), *symbols, spec.topic, spec.since_offset) if pieces else None


def _has_usual_types(df: DataFrame) -> bool:
    return all(field.dataType.simpleString() == _TYPES.get(field.name, field.dataType.simpleString()) for field in df.schema)


def _pieces(df: DataFrame) -> Sequence[Piece]:
    # Spark Connect shows no plan.
    java = getattr(df, "_jdf", None)
    if java is None:
        return ()
    plan = java.queryExecution().analyzed()
    # The whole plan must be one of these: then nothing filters, samples or changes what is read.
    if class_name(plan) == "LogicalRelation" and class_name(plan.relation()) == "HadoopFsRelation":
        return _files(df, plan.relation())
    if is_log_relation(plan):
        return _positions(df, dict(plan.options().asCaseSensitiveMap()))
    return ()


def has_one_log(df: DataFrame) -> bool:
    """By the statistics of Parquet files: all events are of one topic and shard. False where that is not certain."""
    java = getattr(df, "_jdf", None)
    plan = java.queryExecution().analyzed() if java is not None else None
    if plan is None or class_name(plan) != "LogicalRelation" or class_name(plan.relation()) != "HadoopFsRelation":
        return False
    names = [name for name in ("topic", "shard") if name in df.columns]
    values: dict[str, set[str | None]] = {name: set() for name in names}
    for path in _paths(df, plan.relation()) or ():
        try:
            metadata = pq.read_metadata(path)
        except (OSError, pa.ArrowException):
            return False
        for group in map(metadata.row_group, range(metadata.num_row_groups)):
            columns = {column.path_in_schema: column for column in map(group.column, range(group.num_columns))}
            for name in names:
                values[name].add(_only_value(columns.get(name)))
    return all(len(texts) == 1 and None not in texts for texts in values.values())


def _only_value(column: pq.ColumnChunkMetaData | None) -> str | None:
    """The one text of a column of a row group; None if it has several, or if the statistics do not tell."""
    statistics = column.statistics if column is not None else None
    if statistics is None or not statistics.has_min_max or statistics.null_count or statistics.min != statistics.max:
        return None
    # Long texts are shortened in statistics.
    return str(statistics.max) if len(str(statistics.max)) < TEXT_EXACT_MAX else None


def _paths(df: DataFrame, relation: JavaObject) -> list[str] | None:
    """The local Parquet files of a read; None where there are others."""
    if class_name(relation.fileFormat()) != "ParquetFileFormat" or relation.partitionSchema().length():
        return None
    places = [urlsplit(file) for file in df.inputFiles()]
    if any(place.scheme != "file" or place.netloc for place in places):
        return None
    paths = [unquote(place.path) for place in places]
    return paths if all(Path(path).is_file() for path in paths) else None


def _files(df: DataFrame, relation: JavaObject) -> Sequence[Files]:
    paths = _paths(df, relation)
    if paths is None:
        return ()
    return packed({path: Path(path).stat().st_size for path in sorted(paths)}, df.sparkSession.sparkContext.defaultParallelism)


def packed(sizes: Mapping[str, int], cores: int) -> list[Files]:
    """Files in pieces of about equal size, as few per core as possible: small files together, large ones cut."""
    total = sum(sizes.values()) + FILE_BYTES * len(sizes)
    most = total / (cores * -(-total // (cores * PIECE_BYTES_MAX))) if total else 1
    cut: list[Files] = []
    together: dict[int, list[str]] = {}
    passed = 0
    for path, size in sizes.items():
        if size > 1.5 * most:
            parts = round(size / most)
            cut += [Files((path,), part, parts) for part in range(parts)]
        else:
            together.setdefault(int((passed + size / 2) / most), []).append(path)
        passed += size + FILE_BYTES
    return cut + [Files(tuple(paths)) for paths in together.values()]


def _positions(df: DataFrame, read_options: Mapping[str, str]) -> Sequence[Positions]:
    options = SourceOptions.of(with_table_options(read_options, df.schema))
    # Planned once: events appended from now on are not part of the frame, however often it is read.
    splits = EventReader(options, df.schema).partitions()
    return [Positions(options, split.value) for split in splits if split.value is not None]


def _open(path: str, columns: Sequence[str]) -> pq.ParquetFile:
    try:
        # Types and topics are few: as dictionaries they are classified once, not row by row.
        read_dictionary = [name for name in columns if name in ("type", "topic")]
        file = pq.ParquetFile(path, read_dictionary=read_dictionary, coerce_int96_timestamp_unit="us")
    except (OSError, pa.ArrowException) as error:
        raise Unfit(f"{path} cannot be opened: {error}") from error
    known = file.metadata.metadata or {}
    if any(mark in known for mark in _OLD_CALENDAR):
        raise Unfit(f"{path} counts days by the old calendar")
    for name in columns:
        _check(path, file, name)
    return file


def _check(path: str, file: pq.ParquetFile, name: str) -> None:
    place = file.schema_arrow.get_field_index(name)
    if place < 0:
        raise Unfit(f"{path} has no column {name}, or several")
    type_ = file.schema_arrow.field(place).type
    if name == "offset":
        fits = pa.types.is_int64(type_)
    elif name != "appended_at":
        fits = pa.types.is_string(type_.value_type if pa.types.is_dictionary(type_) else type_)
    else:
        int96 = next(c for c in map(file.schema.column, range(len(file.schema))) if c.path == name).physical_type == "INT96"
        fits = int96 or type_ in (pa.timestamp("us", "UTC"), pa.timestamp("ms", "UTC"))
    if not fits:
        raise Unfit(f"{path} has {name} as {type_}")
