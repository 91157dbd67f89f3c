"""What the driver knows of a frame by its plan: whether it is nothing but a read, of which logs or files, in pieces that tasks can read.

Spark's Python sources neither prune columns nor say what they read. A frame that is nothing but a read of the format `headrace` can be
replaced by a narrower read that ends where the log ends now. And Spark moves two to three million rows a second to Python, where Arrow
reads ten times as many from a file; so Spark only says who reads which piece. Promises: the rows are those of the frame. Where that is not
certain (a filter, a partitioned table, another file system, other types in a file) Spark reads; through Spark Connect there is no plan,
and nothing is known."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from headrace.spark.schema import EVENT_COLUMNS, event_schema
from headrace.spark.source.offsets import Split
from headrace.spark.source.options import Positions, SourceOptions, to_offset, with_table_options
from headrace.spark.source.range_reader import read_split
from headrace.spark.source.readers import EventReader, Planner

if TYPE_CHECKING:
    from datetime import datetime

    from py4j.java_gateway import JavaObject  # There may be none with Spark Connect.
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


@dataclass(frozen=True)
class LogRead:
    """A read of logs in the plan of a frame. `is_whole`: the frame is this read, with nothing between."""

    option_values: Mapping[str, str]
    schema: StructType
    is_whole: bool

    @cached_property
    def options(self) -> SourceOptions:
        return SourceOptions.from_options(self.option_values)

    @property
    def is_one_log(self) -> bool:
        """One topic on one shard, whatever is done with its events later."""
        return len(self.options.topics) == 1 and len(self.options.access.targets()) == 1

    def ends(self) -> tuple[Positions, dict[tuple[str, str], datetime]]:
        """Where the read ends on each log now, and the time of the last event there; logs without events are left out."""
        planner = Planner(self.options)
        try:
            logs = planner.logs()
            end = planner.positions(logs, self.options.ending)
            return end, planner.last_times(logs, end)
        finally:
            planner.close()

    def narrow(self, df: DataFrame, columns: Collection[str], end: Positions) -> DataFrame:
        """The same read with only these columns, up to fixed positions."""
        from pyspark.sql.types import StructType

        schema = StructType([field for field in self.schema.fields if field.name in columns])
        values = {name: value for name, value in self.option_values.items() if not name.lower().startswith("ending")}
        values["endingOffsets"] = json.dumps(to_offset(end))
        values.pop("columns", None)
        return df.sparkSession.read.format("headrace").schema(schema).options(**values).load()


def find_log_read(df: DataFrame) -> LogRead | None:
    """The read that all events of a frame come from; None if there is none, or several, or if it cannot be known."""
    java = getattr(df, "_jdf", None)
    if java is None:
        return None
    plan = java.queryExecution().analyzed()
    leaves = plan.collectLeaves()
    if leaves.size() != 1 or not is_log_relation(leaves.apply(0)) or is_cached(java):
        return None
    from pyspark.sql.types import StructType

    leaf = leaves.apply(0)
    schema = StructType.fromJson(json.loads(leaf.schema().json()))
    options = with_table_options(dict(leaf.options().asCaseSensitiveMap()), schema)
    return LogRead(options, schema, is_log_relation(plan))


def narrow_stream(df: DataFrame, columns: Collection[str]) -> DataFrame:
    """A stream that is nothing but a read of the format `headrace`, with only these columns; any other frame as it is."""
    java = getattr(df, "_jdf", None)
    plan = None if java is None else java.queryExecution().analyzed()
    if plan is None or class_name(plan) != "StreamingRelationV2" or plan.sourceName() != "headrace":
        return df
    from pyspark.sql.types import StructType

    schema = StructType([field for field in df.schema.fields if field.name in columns])
    values = {name: value for name, value in plan.extraOptions().asCaseSensitiveMap().items() if name.lower() != "columns"}
    return df.sparkSession.readStream.format("headrace").schema(schema).options(**values).load()


def is_log_relation(plan: JavaObject) -> bool:
    return (
        class_name(plan) == "DataSourceV2Relation"
        and class_name(plan.table()) == "PythonTable"
        and plan.table().name() == "headrace"
    )


def is_cached(java: JavaObject) -> bool:
    """A cached frame stays what it was, so that it must not be read again."""
    level = java.storageLevel()
    return bool(level.useMemory() or level.useDisk())


def class_name(java: JavaObject) -> str:
    return str(java.getClass().getSimpleName())


PIECE_BYTES_MAX = 256 << 20
"""A task in Python costs a tenth of a second before it begins, which is worth 20 MB of reading."""
FILE_BYTES = 1 << 20
"""The cost of opening a file, as bytes that could be read meanwhile."""
FILES_MAX = 1_000
"""More files are not looked into before they are read."""
BATCH_ROWS = 1 << 17
TEXT_EXACT_MAX = 60
_SPARK_NAMES = {"long": "bigint", "integer": "int"}
_TYPES = {column.name: _SPARK_NAMES.get(column.type, column.type) for column in EVENT_COLUMNS}
_MOMENT = pa.timestamp("us", "UTC")
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
class LogPiece:
    """A part of a log or of its archive, as the source `headrace` reads it."""

    options: SourceOptions
    split: Split

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return read_split(self.options, event_schema(columns), self.split)


Piece = Files | LogPiece
"""What one task reads."""


def find_pieces(df: DataFrame) -> tuple[Piece, ...]:
    """The frame as pieces that tasks can read; none where only Spark can read it."""
    # Spark Connect shows no plan.
    java = getattr(df, "_jdf", None)
    if java is None or not _has_usual_types(df):
        return ()
    plan = java.queryExecution().analyzed()
    # The whole plan must be one of these: then nothing filters, samples or changes what is read.
    if class_name(plan) == "LogicalRelation" and class_name(plan.relation()) == "HadoopFsRelation":
        return tuple(_files(df, plan.relation()))
    if is_log_relation(plan) and not is_cached(java):
        return tuple(_log_pieces(df, dict(plan.options().asCaseSensitiveMap())))
    return ()


def are_readable(pieces: Sequence[Piece], columns: Collection[str]) -> bool:
    """Whether every file has these columns as the frame says, by what is written at its end."""
    paths = {path for piece in pieces if isinstance(piece, Files) for path in piece.paths}
    if len(paths) > FILES_MAX:
        return False
    try:
        for path in sorted(paths):
            _open(path, columns).close()
    except Unfit:
        return False
    return True


def plain_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with moments in microseconds, as Spark would give it."""
    columns = [column.cast(_MOMENT) if pa.types.is_timestamp(column.type) else column for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _has_usual_types(df: DataFrame) -> bool:
    return all(field.dataType.simpleString() == _TYPES.get(field.name, field.dataType.simpleString()) for field in df.schema)


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
    return pack_files(
        {path: Path(path).stat().st_size for path in sorted(paths)}, df.sparkSession.sparkContext.defaultParallelism
    )


def pack_files(sizes: Mapping[str, int], cores: int) -> list[Files]:
    """Files in pieces of about equal size, as few per core as possible: small files together, large ones cut."""
    total = sum(sizes.values()) + FILE_BYTES * len(sizes)
    bytes_max = total / (cores * -(-total // (cores * PIECE_BYTES_MAX))) if total else 1
    cut: list[Files] = []
    together: dict[int, list[str]] = {}
    passed = 0
    for path, size in sizes.items():
        if size > 1.5 * bytes_max:
            parts = round(size / bytes_max)
            cut += [Files((path,), part, parts) for part in range(parts)]
        else:
            together.setdefault(int((passed + size / 2) / bytes_max), []).append(path)
        passed += size + FILE_BYTES
    return cut + [Files(tuple(paths)) for paths in together.values()]


def _log_pieces(df: DataFrame, read_options: Mapping[str, str]) -> Sequence[LogPiece]:
    options = SourceOptions.from_options(with_table_options(read_options, df.schema))
    # Planned once: events appended from now on are not part of the frame, however often it is read.
    splits = EventReader(options, df.schema).partitions()
    return [LogPiece(options, split.value) for split in splits if split.value is not None]


def _open(path: str, columns: Collection[str]) -> pq.ParquetFile:
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
    match _TYPES[name]:
        case "bigint":
            fits = pa.types.is_int64(type_)
        case "int":
            fits = pa.types.is_int32(type_)
        case "timestamp":
            int96 = next(c for c in map(file.schema.column, range(len(file.schema))) if c.path == name).physical_type == "INT96"
            fits = int96 or type_ in (_MOMENT, pa.timestamp("ms", "UTC"))
        case _:
            fits = pa.types.is_string(type_.value_type if pa.types.is_dictionary(type_) else type_)
    if not fits:
        raise Unfit(f"{path} has {name} as {type_}")
