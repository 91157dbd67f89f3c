"""A backtest, from the ranges to the report, over read-only connections."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from headrace.core import Invalid
from headrace.db import Target, connect
from headrace.evaluate import CorrelatorSpec, RuleSpec
from headrace.spark.backtest.ranges import Source, TopicRange, find_ranges
from headrace.spark.backtest.report import Report
from headrace.spark.backtest.results import EvidenceReader, build_results
from headrace.spark.backtest.subjects import BacktestSubject
from headrace.spark.jobs import job_description, map_spark_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def backtest(
    spark: SparkSession,
    targets: Sequence[Target],
    subjects: Sequence[BacktestSubject],
    *,
    start: str = "earliest",
    end: str = "latest",
    samples: int = 5,
    keys: int = 10,
    secret: str | None = None,
    folder: str | None = None,
    namespace: str | None = None,
) -> Report:
    """Runs rules and correlators over archive and log, which are read once, and compares them with the live ones of the same names.

    The range is from `start` to before `end`: earliest, latest, a position or a time of the log. Spark's processes find the
    databases by a secret: a file written here that only this user can read, or the named one, which a cluster needs.
    Raises Invalid, PositionOutOfRange, UnknownTopic."""
    if not subjects:
        raise Invalid("nothing to test; give at least one rule or correlator")
    names = [(subject.kind, subject.name) for subject in subjects]
    if duplicates := sorted({f"{kind} {name}" for kind, name in names if names.count((kind, name)) > 1}):
        raise Invalid(f"given twice: {', '.join(duplicates)}; give each rule and correlator once")
    started = time.monotonic()
    with ExitStack() as stack:
        read_only_targets = [read_only(target) for target in targets]
        conns = {target.name: stack.enter_context(connect(target)) for target in read_only_targets}
        options = {
            "secret": secret or stack.enter_context(secret_file(read_only_targets)),
            "archive": folder,
            "namespace": namespace,
        }
        source = Source(spark, {name: value for name, value in options.items() if value})
        ranges = find_ranges(conns, subjects, start, end, folder, namespace)

        described = job_description(spark, f"headrace backtest of {', '.join(name for _, name in names)}")
        with map_spark_errors(), described:
            only_counts = not samples and not keys
            compared = _compare(source, ranges, subjects, namespace, only_counts=only_counts)
            if not only_counts:
                compared.persist()
                stack.callback(compared.unpersist)
            reader = EvidenceReader({(part.shard, part.topic): (part.conn, part.stored) for part in ranges}, folder)
            results = build_results(compared, subjects, reader, samples=samples, keys=keys)
    stored = [part.stored for part in ranges]
    return Report(
        start=start,
        end=end,
        events=sum(map(len, stored)),
        archived=sum(len(replace(part, until=min(part.until, part.log_first))) for part in stored),
        seconds=time.monotonic() - started,
        results=results,
        notes=tuple(note for subject in subjects for note in subject.notes),
    )


def _compare(
    source: Source,
    ranges: Sequence[TopicRange],
    subjects: Sequence[BacktestSubject],
    namespace: str | None,
    *,
    only_counts: bool,
) -> DataFrame:
    # Needs pyspark and pyarrow.
    from headrace.spark.backtest.comparison import compare_outputs, union

    frames = []
    for part in ranges:
        specs = [subject.spec for subject in subjects if subject.topic == part.topic]
        rules = [spec for spec in specs if isinstance(spec, RuleSpec)]
        correlators = [spec for spec in specs if isinstance(spec, CorrelatorSpec)]
        frames.append(compare_outputs(source, part, rules, correlators, namespace, only_counts=only_counts))
    return union(frames)


_READ_ONLY = "-c default_transaction_read_only=on"


def read_only(target: Target) -> Target:
    """The same database, with sessions that cannot write."""
    if "://" not in target.dsn:
        options = conninfo_to_dict(target.dsn).get("options") or ""
        return Target(target.name, make_conninfo(target.dsn, options=f"{options} {_READ_ONLY}".strip()))
    parts = urlsplit(target.dsn)
    parameters = dict(parse_qsl(parts.query))
    parameters["options"] = f"{parameters.get('options', '')} {_READ_ONLY}".strip()
    return Target(target.name, urlunsplit(parts._replace(query=urlencode(parameters, quote_via=quote))))


@contextmanager
def secret_file(targets: Sequence[Target]) -> Iterator[str]:
    """A file with the addresses, for the time of the block; only this user can read it."""
    text = targets[0].dsn if len(targets) == 1 else " ".join(f"{target.name}={target.dsn}" for target in targets)
    with tempfile.TemporaryDirectory(prefix="headrace-backtest-") as folder:
        path = Path(folder) / "addresses"
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8")
        yield str(path)
