"""`headrace event-type`: the event types that a namespace knows, and their schemas."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from typer import Argument, BadParameter, Option, Typer

from headrace.cli.output import note, table
from headrace.cli.session import Session, command
from headrace.core import NotFound, ProblemsFound, UnknownSchema
from headrace.db import Connection
from headrace.definitions import list_event_types, register_event_type, unregister_event_type
from headrace.definitions.schemas import (
    Compatibility,
    SchemaCheck,
    Style,
    Validation,
    alter_schema,
    check_schema,
    drop_schema,
    generate_classes,
    get_schema,
    infer_event_schema,
    infer_topic_schemas,
    list_schema_versions,
    list_schemas,
    set_schema,
)

group = Typer(help="Event types: the names of events that a namespace knows, and their schemas.")

Name = Annotated[str, Argument(metavar="TYPE", help="Event type.", show_default=False)]
SchemaFile = Annotated[str, Argument(metavar="FILE", help="File with a JSON Schema; - reads standard input.", show_default=False)]
CompatibilityOption = Annotated[
    Compatibility | None,
    Option(
        help="Who keeps working when the schema changes: readers of the new version (backward), of the old one (forward), both, nobody."
    ),
]
ValidationOption = Annotated[
    Validation | None, Option(help="What happens to a payload that breaks the schema when it is published.")
]


@command(group, "list")
def list_(session: Session) -> None:
    """List event types: registered ones, and names that only rules use; with the version and the validation of their schemas."""
    types = session.collect(lambda conn: _with_schemas(conn, session.namespace))
    session.show([("event type", "name"), "registered", "rules", "schema", "validation", "description"], types, facts=dict)


def _with_schemas(conn: Connection, namespace: str | None) -> list[dict[str, object]]:
    schemas = {entry.event_type: entry for entry in list_schemas(conn, namespace=namespace)}
    rows: list[dict[str, object]] = []
    for event_type in list_event_types(conn, namespace=namespace):
        schema = schemas.get(event_type.name)
        versions = {"schema": schema and schema.version, "validation": schema and schema.validation}
        rows.append(asdict(event_type) | versions)
    return rows


@command(group, "create")
def create(session: Session, name: Name, description: Annotated[str | None, Option(help="What the event means.")] = None) -> None:
    """Register an event type, on every shard.

    If the type is registered already, its description is replaced. `headrace namespace alter` sets what happens to rules with
    names that are not registered.

    Example: headrace event-type create order.placed --description 'a customer has ordered'
    """
    session.on_every_shard(session.bind(register_event_type, name, description=description))
    session.done(f"event type {name} registered", {"event_type": name})


@command(group, "drop")
def drop(
    session: Session,
    name: Name,
    schema: Annotated[bool, Option("--schema", help="Drop the schema only; the type stays.")] = False,
) -> None:
    """Unregister an event type with its schema, on every shard, or drop its schema only. Rules that use it stay."""
    if schema:
        session.on_every_shard(session.bind(drop_schema, name))
        session.done(f"the schema of {name} is dropped", {"event_type": name})
        return
    session.on_every_shard(session.bind(unregister_event_type, name))
    session.done(f"event type {name} is no longer registered", {"event_type": name})


@command(group, "set")
def set_(
    session: Session,
    name: Name,
    file: SchemaFile,
    compatibility: CompatibilityOption = None,
    validation: ValidationOption = None,
    force: Annotated[bool, Option("--force", help="Set the schema although it is not compatible.")] = False,
) -> None:
    """Give an event type a JSON Schema, on every shard. A changed schema is a new version.

    The schema must be compatible with the version before (--compatibility, at first backward); the error shows an example. Rules and
    correlators that read what the new schema does not have are listed.

    Example: headrace event-type set order.placed order.json --validation reject
    """
    text = _read(file)
    (change, *_) = session.on_every_shard(
        session.bind(set_schema, name, text, compatibility=compatibility, validation=validation, force=force)
    )
    _note_findings(change.check)
    if validation in ("warn", "reject") and not change.check.check_is_complete:
        note("warning: the database checks only a part of this schema; publish with schemas=… to check all of it")
    session.done(f"{name} has schema version {change.version}", {"event_type": name, "version": change.version})


@command(group, "alter")
def alter(session: Session, name: Name, compatibility: CompatibilityOption = None, validation: ValidationOption = None) -> None:
    """Change the compatibility or the validation of an event type's schema, on every shard.

    Example: headrace event-type alter order.placed --validation warn
    """
    if compatibility is None and validation is None:
        raise BadParameter("give --compatibility or --validation")
    session.on_every_shard(session.bind(alter_schema, name, compatibility=compatibility, validation=validation))
    session.done(f"the schema of {name} is changed", {"event_type": name})


@command(group, "check")
def check(session: Session, name: Name, file: SchemaFile, compatibility: CompatibilityOption = None) -> None:
    """Show what a schema would break: readers, publishers, rules and correlators. Changes nothing.

    The exit code is 6 if something breaks, or if nobody can tell.

    Example: headrace event-type check order.placed order.json --compatibility full
    """
    text = _read(file)
    result = next(iter(session.on_every_shard(session.bind(check_schema, name, text, compatibility=compatibility))))
    errors = [entry for entry in result.findings if entry.finding.severity == "error"]
    rows = [(f"{entry.direction} compatibility", entry.reason, entry.example or "") for entry in result.breaks]
    rows += [(f"{entry.kind} {entry.name}", str(entry.finding), entry.finding.severity) for entry in result.findings]
    session.print(
        result, table(["what", "why", "example"], rows) if rows else f"compatible with version {result.against_version}"
    )
    if result.breaks or errors:
        raise ProblemsFound(
            f"the schema is not compatible in {len(result.breaks)} respects, and makes {len(errors)} errors in rules, correlators and relays"
        )


@command(group, "show")
def show(
    session: Session, name: Name, version: Annotated[int | None, Option(help="Version.", show_default="the current one")] = None
) -> None:
    """Print the schema of an event type.

    Example: headrace event-type show order.placed > order.json
    """

    def read(conn: Connection) -> tuple[str, object]:
        if version is None:
            schema = get_schema(conn, name, namespace=session.namespace)
            return schema.text, schema
        for entry in list_schema_versions(conn, name, namespace=session.namespace):
            if entry.version == version:
                return entry.text, entry
        raise UnknownSchema(f"the schema of {name} has no version {version}; see: headrace event-type versions {name}")

    _, (text, entry) = session.find(NotFound, read)
    session.print(entry, json.dumps(json.loads(text), indent=2, ensure_ascii=False))


@command(group, "versions")
def versions(session: Session, name: Name) -> None:
    """List the versions of an event type's schema."""
    entries = session.collect(session.bind(list_schema_versions, name))
    session.show(["version", "compatibility", "forced", "written_at", ("by", "written_by")], entries)


@command(group, "infer")
def infer(
    session: Session,
    topic: Annotated[str, Argument(metavar="TOPIC", help="Topic.", show_default=False)],
    name: Annotated[str | None, Argument(metavar="[TYPE]", help="Event type.", show_default="all of the topic")] = None,
    sample: Annotated[int, Option(help="Newest events of a type to look at.")] = 1000,
) -> None:
    """Propose a schema for an event type from the events in a topic's log, and print it. Without a type: for all, in one object.

    Examples: headrace event-type infer orders order.placed > order.json · headrace event-type infer orders
    """
    if name is None:
        _, proposals = session.find(NotFound, session.bind(infer_topic_schemas, topic, sample=sample))
        note(f"of {len(proposals)} event types; check them before you set them")
        schemas = {event_type: proposal.schema for event_type, proposal in proposals.items()}
        session.print(proposals, json.dumps(schemas, indent=2, ensure_ascii=False))
        return
    _, proposal = session.find(NotFound, session.bind(infer_event_schema, topic, name, sample=sample))
    note(f"from {proposal.sample} events; check it before you set it")
    session.print(proposal, json.dumps(proposal.schema, indent=2, ensure_ascii=False))


@command(group, "codegen")
def codegen(
    session: Session,
    names: Annotated[
        list[str] | None, Argument(metavar="[TYPE]...", help="Event types.", show_default="all with a schema")
    ] = None,
    style: Annotated[Style, Option(help="Kind of classes.")] = "dataclass",
    decimal: Annotated[bool, Option("--decimal", help="Decimal for numbers with a fraction, instead of float.")] = False,
    output: Annotated[Path | None, Option(metavar="FILE", help="File to write.", show_default="standard output")] = None,
) -> None:
    """Write Python classes for the payloads of event types, from their schemas.

    A handler asks for them with LoggedEvent[Class]. The same schemas give the same text.

    Example: headrace event-type codegen order.placed --style msgspec --output payloads.py
    """

    def read(conn: Connection) -> dict[str, str]:
        known = {entry.event_type: entry.text for entry in list_schemas(conn, namespace=session.namespace)}
        for name in names or []:
            if name not in known:
                get_schema(conn, name, namespace=session.namespace)
        if not known:
            raise UnknownSchema("no event type has a schema; set one: headrace event-type set")
        return {name: known[name] for name in names or known}

    from headrace.definitions.schemas import parse_schema

    _, texts = session.find(NotFound, read)
    values = {name: parse_schema(text) for name, text in texts.items()}
    code = generate_classes(values, style=style, numbers="decimal" if decimal else "float")
    if output is not None:
        output.write_text(code, encoding="utf-8")
        session.done(f"{output} has classes of {len(values)} event types", {"file": str(output), "event_types": sorted(values)})
    elif session.json:
        session.print({"code": code})
    else:
        sys.stdout.write(code)


def _read(file: str) -> str:
    if file == "-":
        return sys.stdin.read()
    path = Path(file)
    if not path.is_file():
        raise NotFound(f"there is no file {file}")
    return path.read_text(encoding="utf-8")


def _note_findings(check: SchemaCheck) -> None:
    for entry in check.findings:
        note(str(entry))
    for broken in check.breaks:
        note(f"warning: set by force, although {broken}")
