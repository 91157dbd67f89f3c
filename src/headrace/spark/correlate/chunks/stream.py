"""A stream that tasks read by themselves: pieces of Parquet files or of the log, without going through Spark's rows.

Spark moves two to three million rows a second to Python; Arrow reads ten times as many from a file. So where a frame is nothing
but a read, and a pattern looks at nothing but types, Spark only says who reads what. Promises: the rows are those of the frame.
Whatever is not known to be so (a filter, a partitioned table, another file system, other types in a file) is left to Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import unquote, urlsplit

from headrace.core import HeadraceError
from headrace.lang.ecl import Table
from headrace.spark.correlate.symbols import CorrelatorSpec
from headrace.spark.source.offsets import Span
from headrace.spark.source.options import SourceOptions

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from py4j.java_gateway import JavaObject
    from pyspark.sql import DataFrame

PIECE_BYTES_MAX = 256 << 20
"""A task in Python costs a tenth of a second before it begins, which is worth 20 MB of reading."""
FILE_BYTES = 1 << 20
"""What it costs to open a file, in bytes read meanwhile."""
BATCH_ROWS = 1 << 17
_TYPES = {"type": "string", "offset": "bigint", "event_id": "string", "topic": "string"}
# Written by a release of Spark that counted old days by another calendar; only Spark itself knows how to read them.
_OLD_CALENDAR = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")


class Unfit(HeadraceError):
    """A file is not what its frame says it is, so only Spark can read it."""


class Piece(Protocol):
    """What one task reads."""

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]: ...


@dataclass(frozen=True)
class Files:
    """Some Parquet files, one after another; or of one large file, its row groups in `parts` equal parts."""

    paths: tuple[str, ...]
    part: int = 0
    parts: int = 1

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for path in self.paths:
            file = _opened(path, columns)
            count = file.num_row_groups
            groups = list(range(count * self.part // self.parts, count * (self.part + 1) // self.parts))
            if groups:
                yield from file.iter_batches(BATCH_ROWS, row_groups=groups, columns=list(columns), use_threads=False)


@dataclass(frozen=True)
class Positions:
    """A range of positions of a log or of its archive, as the source `headrace` reads it."""

    options: SourceOptions
    span: Span

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        from headrace.spark.schema import event_schema
        from headrace.spark.source.arrow_reader import read_span

        return read_span(self.options, event_schema(columns), self.span)


@dataclass(frozen=True)
class Stream:
    """The events of a frame, in pieces, and the symbols of their types."""

    pieces: tuple[Piece, ...]
    time: str
    symbols: Mapping[str, int]
    other: int
    topic: str | None = None
    since_offset: int = 0

    def batches(self, number: int, columns: Sequence[str] = ()) -> Iterator[pa.RecordBatch]:
        """The rows of a piece that the correlator is about: type, offset and the columns named."""
        import pyarrow.compute as pc

        wanted = ["type", "offset", *(["topic"] if self.topic is not None else []), *columns]
        for batch in self.pieces[number].batches(wanted):
            if self.topic is not None:
                batch = batch.filter(pc.equal(batch["topic"], self.topic))
            if self.since_offset:
                batch = batch.filter(pc.greater_equal(batch["offset"], self.since_offset))
            if batch.num_rows:
                yield batch


def symbols_of(table: Table) -> tuple[Mapping[str, int], int] | None:
    """The symbol of every type named, and that of any other; None where a pattern looks at more than types."""
    alphabet, *others = table.alphabets
    if others or not isinstance(alphabet.other, int):
        return None
    symbols = {name: decision for name, decision in alphabet.types.items() if isinstance(decision, int)}
    return (symbols, alphabet.other) if len(symbols) == len(alphabet.types) else None


def stream_of(df: DataFrame, spec: CorrelatorSpec, time: str) -> Stream | None:
    """The frame as a stream that tasks can read; None where that is for Spark to do."""
    symbols = symbols_of(spec.table)
    if symbols is None or not _usual(df, time):
        return None
    pieces = _pieces(df)
    return Stream(tuple(pieces), time, *symbols, spec.topic, spec.since_offset) if pieces else None


def _usual(df: DataFrame, time: str) -> bool:
    types = {**_TYPES, time: "timestamp"}
    return all(field.dataType.simpleString() == types.get(field.name, field.dataType.simpleString()) for field in df.schema)


def _pieces(df: DataFrame) -> Sequence[Piece]:
    # Through Spark Connect there is no plan to look at.
    java = getattr(df, "_jdf", None)
    if java is None:
        return ()
    plan = java.queryExecution().analyzed()
    # The whole plan must be one of these: then nothing filters, samples or changes what is read.
    match _name(plan):
        case "LogicalRelation" if _name(plan.relation()) == "HadoopFsRelation":
            return _files(df, plan.relation())
        case "DataSourceV2Relation" if _name(plan.table()) == "PythonTable" and plan.table().name() == "headrace":
            return _positions(df, dict(plan.options().asCaseSensitiveMap()))
    return ()


def _name(java: JavaObject) -> str:
    return str(java.getClass().getSimpleName())


def _files(df: DataFrame, relation: JavaObject) -> Sequence[Files]:
    if _name(relation.fileFormat()) != "ParquetFileFormat" or relation.partitionSchema().length():
        return ()
    places = [urlsplit(file) for file in df.inputFiles()]
    if any(place.scheme != "file" or place.netloc for place in places):
        return ()
    paths = [unquote(place.path) for place in places]
    if not all(Path(path).is_file() for path in paths):
        return ()
    return packed({path: Path(path).stat().st_size for path in sorted(paths)}, df.sparkSession.sparkContext.defaultParallelism)


def packed(sizes: Mapping[str, int], cores: int) -> list[Files]:
    """Files in about equal pieces, as few per core as can be: small files together, large ones cut."""
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


def _positions(df: DataFrame, told: Mapping[str, str]) -> Sequence[Positions]:
    from headrace.spark.source.planner import Split
    from headrace.spark.source.reader import EventReader

    options = SourceOptions.of(told)
    # Planned once: what is appended from now on is not part of the frame, however often it is read.
    splits = EventReader(options, df.schema).partitions()
    return [Positions(options, split.span) for split in splits if isinstance(split, Split)]


def _opened(path: str, columns: Sequence[str]) -> pq.ParquetFile:
    import pyarrow as pa
    import pyarrow.parquet as pq

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
    import pyarrow as pa

    place = file.schema_arrow.get_field_index(name)
    if place < 0:
        raise Unfit(f"{path} has no column {name}, or several")
    found = file.schema_arrow.field(place).type
    if name == "offset":
        fits = pa.types.is_int64(found)
    elif name in _TYPES:
        fits = pa.types.is_string(found.value_type if pa.types.is_dictionary(found) else found)
    else:
        int96 = next(c for c in map(file.schema.column, range(len(file.schema))) if c.path == name).physical_type == "INT96"
        fits = int96 or found in (pa.timestamp("us", "UTC"), pa.timestamp("ms", "UTC"))
    if not fits:
        raise Unfit(f"{path} has {name} as {found}")
