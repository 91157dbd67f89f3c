"""`headrace plan` and `headrace apply`: the rules, correlators, schedules and relays of a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, get_args

from typer import Argument, Option, Typer

from headrace.cli.options import Yes
from headrace.cli.output import console, json_line
from headrace.cli.session import Session, command
from headrace.core import ProblemsFound
from headrace.db import Shards, Target
from headrace.definitions import AnyKind, Change, Definition, Operation, Plan, apply, load_definitions, plan

group = Typer()

File = Annotated[
    Path, Argument(metavar="FILE", help="YAML or Python with rules, correlators, schedules, relays.", show_default=False)
]
Source = Annotated[str | None, Option(help="Owner of the definitions; only its own are dropped.", show_default="the file's name")]
Plans = list[tuple[Target, Plan]]


@command(group, "plan")
def plan_(
    session: Session,
    file: File,
    source: Source = None,
    check: Annotated[bool, Option("--check", help="Exit with code 6 if anything would change.")] = False,
) -> None:
    """Show what `apply` would change, and change nothing.

    The file has the lists `rules`, `correlators`, `schedules` and `relays`, or some of them. A Python file is run as
    code and has these lists as variables.

    Example: headrace plan definitions.yaml
    """
    plans = _plans(session, file, source)
    _print_plans(session, plans)
    if check and any(not shard_plan.is_empty for _, shard_plan in plans):
        raise ProblemsFound(f"the database differs from {file.name}; apply it: headrace apply {file}")


@command(group, "apply")
def apply_(
    session: Session,
    file: File,
    source: Source = None,
    restart: Annotated[bool, Option("--restart", help="Restart all keys of changed correlators.")] = False,
    yes: Yes = False,
) -> None:
    """Apply the rules, correlators, schedules and relays of a file, after showing what changes.

    On each shard it applies all changes or none. Definitions of another source are left alone, unless the file has one of the
    same name, which it takes over. A schedule is on one shard, everything else is on every shard.

    Example: headrace apply definitions.yaml --yes
    """
    plans = _plans(session, file, source)
    has_changes = any(not shard_plan.is_empty for _, shard_plan in plans)
    if not session.json:
        _print_plans(session, plans)
    if has_changes:
        session.confirm("Apply these changes?", yes=yes)
        for (_, shard_plan), (_, conn) in zip(plans, session.shards(), strict=True):
            for applied in apply(conn, shard_plan, restart=restart):
                if applied.effects and not session.json:
                    counts = ", ".join(f"{count} {effect}" for effect, count in applied.effects.items())
                    console().print(f"{applied.change.kind.noun} {applied.change.name}: keys {counts}", markup=False)
    if session.json:
        _print_plans(session, plans)
    elif has_changes:
        console().print(f"{file.name} is applied; a running node activates it within a second", markup=False)


def _plans(session: Session, file: Path, source: str | None) -> Plans:
    # Imported here: the compiler of patterns takes long to import.
    from headrace.correlators import CORRELATORS
    from headrace.relays import RELAYS
    from headrace.rules import RULES
    from headrace.schedules import SCHEDULES

    kinds: Sequence[AnyKind] = (RULES, CORRELATORS, SCHEDULES, RELAYS)
    definitions = load_definitions(file, kinds)
    shards = _shards_of(session, definitions, kinds)
    plans = []
    for target, conn in session.shards():
        own = [definition for definition, shard in zip(definitions, shards, strict=True) if shard in (None, target.name)]
        plans.append((target, plan(conn, own, kinds=kinds, source=source or file.name, namespace=session.namespace)))
    return plans


def _shards_of(session: Session, definitions: Sequence[Definition], kinds: Sequence[AnyKind]) -> list[str | None]:
    """The shard of every definition, None for all shards. A definition that is on a shard already stays there."""
    owners = [next(kind for kind in kinds if isinstance(definition, kind.definition_type)) for definition in definitions]
    keys = [kind.shard_key(definition) for kind, definition in zip(owners, definitions, strict=True)]
    on_one_shard = {kind.noun for kind, key in zip(owners, keys, strict=True) if key is not None}
    if len(session.targets) == 1 or not on_one_shard:
        return [None] * len(definitions)
    present = {
        (kind.noun, stored.definition.name): target.name
        for target, conn in session.shards()
        for kind in kinds
        if kind.noun in on_one_shard
        for stored in kind.list_stored(conn, session.namespace)
    }
    shards = Shards(session.targets)
    return [
        None if key is None else present.get((kind.noun, definition.name)) or shards.shard_of(key).name
        for kind, definition, key in zip(owners, definitions, keys, strict=True)
    ]


def _print_plans(session: Session, plans: Plans) -> None:
    if session.json:
        json_line(
            [
                {"shard": target.name, "source": shard_plan.source}
                | {operation: list(map(_change_json, shard_plan.select(operation))) for operation in get_args(Operation)}
                for target, shard_plan in plans
            ]
        )
        return
    if any(not shard_plan.is_empty for _, shard_plan in plans):
        rows = [(target, row) for target, shard_plan in plans for row in _change_rows(shard_plan)]
        session.show(["", "kind", "name", "change", "from", "to"], rows, facts=lambda _: {})
    for target, shard_plan in plans:
        counts = ", ".join(
            f"{len(shard_plan.select(operation))} {'unchanged' if operation == 'unchanged' else f'to {operation}'}"
            for operation in get_args(Operation)
        )
        console().print(f"{target.name}: {counts}" if len(plans) > 1 else counts, markup=False)


def _change_json(change: Change) -> dict[str, object]:
    facts: dict[str, object] = {"kind": change.kind.noun, "name": change.name}
    if change.operation != "alter":
        return facts
    meaning = _meaning(change)
    return facts | {"differences": change.differences or ("source",)} | ({} if meaning is None else {"meaning": meaning})


def _meaning(change: Change) -> str | None:
    """What the change means for events."""
    return None if change.before is None else change.kind.meaning(change.before.definition, change.after)


def _change_rows(shard_plan: Plan) -> Iterator[list[object]]:
    for change in shard_plan.changes:
        kind, name, summary = change.kind.noun, change.name, change.kind.summary(change.definition)
        if change.operation == "create":
            yield ["+", kind, name, "create", None, summary]
        elif change.operation == "drop":
            yield ["-", kind, name, "drop", summary, None]
        elif change.operation == "alter" and change.before is not None:
            for field in change.differences:
                before, after = getattr(change.before.definition, field), getattr(change.after, field)
                yield ["~", kind, name, field.replace("_", " "), before, after]
            if (meaning := _meaning(change)) is not None:
                yield ["", kind, name, "meaning", None, meaning]
            if change.before.source != shard_plan.source:
                yield ["~", kind, name, "source", change.before.source, shard_plan.source]
