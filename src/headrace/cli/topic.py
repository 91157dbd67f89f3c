"""`headrace topic`: topics and their retention."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import msgspec
from typer import Argument, BadParameter, Option, Typer

from headrace.cli.consumer import PARTITION, STATE
from headrace.cli.options import ArchiveFolder, DryRun, From, Keys, OptionalTopic, To, TopicName, Types, Yes
from headrace.cli.output import Column, console, note, progress_bar, table
from headrace.cli.session import Changes, Session, command, facts_table
from headrace.consume import consumer_lag
from headrace.core import TopicExists
from headrace.db import Target, parse_interval, parse_time
from headrace.log import topics as log
from headrace.log.archive import Erasure, erase_key, finish_erasures, keep_until_archived, list_erasures
from headrace.log.arrow import ExportFormat, export as export_events, read

group = Typer(help="Topics: named logs with partitions and a retention.")

Width: TypeAlias = Literal["day", "week", "month"]
Rewrite: TypeAlias = Annotated[
    bool, Option("--rewrite", help="Vacuum by writing the tables anew (VACUUM FULL), which locks each of them meanwhile.")
]
Engine: TypeAlias = Literal["database", "spark"]


@command(group, "create")
def create(
    session: Session,
    name: TopicName,
    partitions: Annotated[int, Option("--partitions", "-p", help="Partitions, consumed in parallel; a key stays in one.")] = 1,
    retention: Annotated[str | None, Option(help="How long to keep events: '30 days'.", show_default="forever")] = None,
    time_partition: Annotated[Width, Option(help="The log is split, and dropped, in time partitions.")] = "month",
    clock: Annotated[log.Clock, Option(help="Time of the log: the server's clock, or the events' own time.")] = "server",
    if_not_exists: Annotated[bool, Option("--if-not-exists", help="Do nothing if the topic exists.")] = False,
) -> None:
    """Create a topic, on every shard.

    Example: headrace topic create orders --partitions 4 --retention '90 days'
    """
    created_on = []
    for target, conn in session.shards():
        interval = parse_interval(conn, retention) if retention and retention != "forever" else None
        try:
            log.create_topic(
                conn,
                name,
                partitions=partitions,
                retention=interval,
                time_partition=time_partition,
                clock=clock,
                namespace=session.namespace,
            )
            created_on.append(target.name)
        except TopicExists:
            if not if_not_exists:
                raise
    message = f"topic {name} created" if created_on else f"topic {name} exists already"
    session.done(message, {"topic": name, "created_on": created_on})


@command(group, "alter")
def alter(
    session: Session,
    name: TopicName,
    partitions: Annotated[int | None, Option("--partitions", "-p", help="New, higher number of partitions.")] = None,
    retention: Annotated[str | None, Option(help="How long to keep events: '30 days', or 'forever'.")] = None,
    archive: Annotated[bool | None, Option("--archive/--no-archive", help="Let retention drop only what is archived.")] = None,
) -> None:
    """Raise the number of partitions, or change the retention, on every shard.

    It works while the topic is in use; the order of each key is kept.

    Example: headrace topic alter orders --partitions 8 --retention forever
    """
    if partitions is None and retention is None and archive is None:
        raise BadParameter("nothing to change; add --partitions, --retention or --archive")
    changes = Changes(session)
    for target, conn in session.shards():
        before = log.get_topic(conn, name, namespace=session.namespace)
        interval = parse_interval(conn, "0" if retention == "forever" else retention) if retention else None
        log.alter_topic(conn, name, partitions=partitions, retention=interval, namespace=session.namespace)
        if archive is not None:
            keep_until_archived(conn, name, archive=archive, namespace=session.namespace)
        after = log.get_topic(conn, name, namespace=session.namespace)
        changes.add(target, _settings(before), _settings(after))
    changed = {"topic": name, "partitions": partitions, "retention": retention, "archive": archive}
    changes.done(f"topic {name} changed", changed)


def _settings(topic: log.Topic) -> dict[str, object]:
    return {"partitions": topic.partitions, "retention": topic.retention or "forever", "archive": topic.archive}


@command(group, "engine")
def engine(
    session: Session,
    name: TopicName,
    engine: Annotated[Engine, Argument(metavar="database|spark", help="Where rules and correlators run.")],
) -> None:
    """Move the rules and correlators of a topic to another engine.

    It works on every shard, while the topic is in use. Nothing is lost or repeated, and every correlator keeps the state of its
    keys. On spark they run where `headrace pipeline run` does.

    Example: headrace topic engine orders spark
    """
    from headrace.spark.pipeline import set_engine

    moved = [target.name for target, conn in session.shards() if set_engine(conn, name, engine, namespace=session.namespace)]
    message = f"topic {name} {'now' if moved else 'already'} runs on {engine}"
    session.done(message, {"topic": name, "engine": engine, "moved_on": moved})


@command(group, "list")
def list_(session: Session) -> None:
    """List the topics of the namespace with their sizes."""
    topics = session.collect(session.bind(log.list_topics))
    counts: list[Column] = ["partitions", "events", "last_position", ("in outbox", "waiting"), "consumers"]
    retention = ("retention", lambda topic: topic.retention or "forever")
    session.show(["topic", *counts, retention, "engine", ("last event at", "last_appended_at")], topics, facts=_facts)


@command(group, "show")
def show(session: Session, name: TopicName) -> None:
    """Show one topic and its consumers."""
    parts, facts = [], []
    for target, conn in session.shards():
        topic = log.get_topic(conn, name, namespace=session.namespace)
        cursors = consumer_lag(conn, topic=name, namespace=session.namespace)
        facts.append({"shard": target.name} | _facts(topic) | {"cursors": cursors})
        parts.append(facts_table(f"topic {topic.topic}", target, _labels(topic)))
        if cursors:
            parts.append(table(["consumer", PARTITION, "position", "lag_events", "lag_s", STATE], cursors))
    session.print(facts, *parts)


def _labels(topic: log.Topic) -> dict[str, object]:
    return {
        "namespace": topic.namespace,
        "partitions": topic.partitions,
        "positions": f"{topic.first_position} to {topic.last_position}" if topic.events else "none yet",
        "events in the log": topic.events,
        "waiting in the outbox": topic.waiting,
        "last event at": topic.last_appended_at,
        "retention": topic.retention or "forever",
        "kept until archived": topic.archive,
        "time partition": topic.time_partition,
        "rules and correlators run on": topic.engine,
    }


def _facts(topic: log.Topic) -> dict[str, object]:
    return {**msgspec.to_builtins(topic), "events": topic.events}


@command(group, "export")
def export(
    session: Session,
    name: TopicName,
    file: Annotated[Path, Argument(help="File to write: .parquet, .arrow, .csv or .jsonl.", show_default=False)],
    start: From = "earliest",
    end: To = "latest",
    types: Types = None,
    keys: Keys = None,
    where: Annotated[str | None, Option(help="Only events for which this condition is true.")] = None,
    columns: Annotated[list[str] | None, Option("--column", help="Only this column; repeatable.")] = None,
    format: Annotated[ExportFormat | None, Option(help="Format of the file.", show_default="by its name")] = None,
    overwrite: Annotated[bool, Option("--overwrite", help="Replace the file if it exists.")] = False,
    folder: ArchiveFolder = None,
) -> None:
    """Write the events of a topic to a file, from the archive and the log.

    All shards go into one file. It gets its name once it is complete. In JSON lines (.jsonl) payload and headers are JSON; in the
    other formats they are JSON text.

    Example: headrace topic export orders orders.parquet --from 2026-01-01 --type order.placed
    """
    events = read(
        name,
        start=start,
        end=end,
        types=types,
        keys=keys,
        where=where,
        columns=columns,
        archive=folder or True,
        dsn=session.targets,
        namespace=session.namespace,
    )
    written = 0
    with progress_bar(hide=session.json) as progress:
        # The condition may leave some out.
        task = progress.add_task("events", total=sum(map(len, events.positions.values())) if where is None else None)
        for step in export_events(events, file, format=format, overwrite=overwrite):
            written = step.events
            progress.update(task, completed=written)
    facts = {"topic": name, "events": written, "file": str(file), "file_bytes": file.stat().st_size}
    session.done(f"{written} events of {name} written to {file}", facts)


@command(group, "drop")
def drop(
    session: Session,
    name: TopicName,
    force: Annotated[bool, Option("--force", help="Drop it even if it has consumers.")] = False,
    yes: Yes = False,
) -> None:
    """Drop a topic with its log and its outbox, on every shard."""
    events = sum(session.on_every_shard(lambda conn: log.get_topic(conn, name, namespace=session.namespace).events))
    session.confirm(f"Drop topic {name} with {events} events in its log?", yes=yes)
    session.on_every_shard(session.bind(log.drop_topic, name, force=force))
    session.done(f"topic {name} dropped", {"topic": name, "events": events})


@command(group, "erase")
def erase(
    session: Session,
    name: TopicName,
    key: Annotated[str, Option(help="The key whose events are erased.", show_default=False)],
    redact: Annotated[list[str] | None, Option(help="Only this field, such as customer.email; repeatable.")] = None,
    replace_key: Annotated[bool, Option("--replace-key", help="Give the events a random key, too.")] = False,
    actions: Annotated[bool, Option("--actions", help="Also actions with this key that your own code sent.")] = False,
    vacuum: Annotated[bool, Option(help="Remove the old versions of the rows from the tables.")] = True,
    rewrite: Rewrite = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Erase the data of one key: in the log, the archive and everything made of its events.

    Payloads become {} and headers only say that the event was erased. Positions, ids, types and times stay, so that consumers and
    Spark go on. Dead letters, actions, and the state and outputs of correlators are erased, too. It cannot be undone.

    PostgreSQL keeps old versions of rows until VACUUM, which runs at the end if your role owns the tables. WAL, replicas and backups
    keep them until they expire.

    Example: headrace topic erase orders --key customer-7 --redact email --redact address.street --dry-run
    """
    if not dry_run:
        session.confirm(f"Erase the data of this key in topic {name} for good?", yes=yes)
    options = {"replace_key": replace_key, "actions": actions, "dry_run": dry_run, "vacuum": vacuum, "rewrite": rewrite}
    erasures = [
        (target, erase_key(target, name, key, fields=redact, **options, namespace=session.namespace))
        for target in session.targets
    ]
    if session.json:
        session.print([{"shard": target.name, **msgspec.to_builtins(erasure)} for target, erasure in erasures])
        return
    rows = [(place, count) for _, erasure in erasures for place, count in erasure.row_counts.items()]
    title = "would be erased" if dry_run else "erased"
    session.print(None, table([(title, ""), ("rows", "")], rows) if rows else "nothing of this key was found")
    if rows and not dry_run:
        left = sorted({name for _, erasure in erasures for name in erasure.tables_pending})
        session.print(None, _remains(left, rewrite=rewrite))


@command(group, "erasures")
def erasures(
    session: Session,
    name: OptionalTopic = None,
    finish: Annotated[bool, Option("--finish", help="First finish pending ones: files of the archive, and VACUUM.")] = False,
    rewrite: Rewrite = False,
) -> None:
    """List what was erased: who, when and how many rows; never the key."""
    if finish:
        for target in session.targets:
            result = finish_erasures(target, rewrite=rewrite, namespace=session.namespace)
            if result.is_blocked:
                note("an older transaction is still open, so VACUUM removed nothing; try again when it has ended")
            elif result.not_owned:
                note(f"this role may not vacuum {len(result.not_owned)} tables; run this as their owner")
    erasures = session.collect(session.bind(list_erasures, name))
    rows: Column = ("rows", lambda erasure: ", ".join(f"{place} {count}" for place, count in erasure.row_counts.items()))
    pending: Column = ("pending", _pending)
    fields: Column = ("fields", lambda erasure: ", ".join(erasure.fields or ["all"]))
    columns: list[Column] = [("id", "erasure_id"), "topic", fields, "erased_by", "erased_at", rows, pending]
    session.show(columns, erasures)


def _pending(erasure: Erasure) -> str:
    """What --finish still has to do."""
    parts = [(erasure.archives_pending, "archive"), (len(erasure.tables_pending), "VACUUM")]
    return ", ".join(name for count, name in parts if count) or "no"


def _remains(tables: list[str], *, rewrite: bool) -> str:
    """Where the erased data may still be on disk, and what to do about it."""
    if tables:
        advice = f"{len(tables)} tables still hold old versions of the rows; to remove them, as their owner: headrace topic erasures --finish"
    elif rewrite:
        advice = "the tables were written anew, without old versions of the rows"
    else:
        advice = (
            "VACUUM freed the old versions of the rows; their bytes go when the space is used again (with --rewrite: at once)"
        )
    return f"{advice}. WAL, replicas and backups keep them until they expire."


@command(group, "maintain", common=("dsn", "json"))
def maintain_(session: Session) -> None:
    """Apply the retention of all topics and create time partitions ahead.

    A running node does it by itself.
    """
    _print_expired(session, session.collect(log.maintain_log))


@command(group, "drop-expired")
def drop_expired_(
    session: Session,
    name: TopicName,
    before: Annotated[str, Option(help="Drop time partitions that ended before this time.", show_default=False)],
    force: Annotated[bool, Option("--force", help="Drop also events that a consumer has not handled yet.")] = False,
    yes: Annotated[bool, Option("--yes", "-y", help="With --force: do not ask for confirmation.")] = False,
) -> None:
    """Drop old time partitions of a topic, whatever its retention.

    Time partitions with events that a consumer has not handled are kept, unless you add --force.

    Example: headrace topic drop-expired orders --before 2026-01-01
    """
    if force:
        session.confirm(f"Drop events of {name} before {before}, also those a consumer has not handled?", yes=yes)
    expired = session.collect(
        lambda conn: log.drop_expired(conn, name, before=parse_time(conn, before), force=force, namespace=session.namespace)
    )
    _print_expired(session, expired)


def _print_expired(session: Session, expired: list[tuple[Target, log.ExpiredPartition]]) -> None:
    if expired or session.json:
        outcome = ("outcome", lambda partition: "dropped" if partition.dropped else "kept")
        session.show(["topic", ("time partition", "name"), "events", outcome, "kept_for"], expired)
    else:
        console().print("nothing has expired")
