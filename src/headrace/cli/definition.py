"""Groups of commands for definitions: create, alter, drop, list, show, versions, pause and resume, derived from a kind's fields.

A group adds only what is special to its kind: options that set a field in another way, columns, and commands of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from types import MappingProxyType
from typing import Annotated, Any, TypeVar

import msgspec
from rich.table import Table
from typer import Argument, BadParameter, Option, Typer

from headrace.cli.ecl import read_text
from headrace.cli.options import OptionalTopic, Yes
from headrace.cli.output import Column, cells, first_line
from headrace.cli.session import Changes, OptionType, Session, command, facts_table
from headrace.db import Connection, Shards, Target
from headrace.definitions import AnyKind, Definition, Field

T = TypeVar("T")

TEXT_CHARS_MAX = 60
"""Of a long text in a list."""
ACTIVATED = "a running node activates it within a second"

Reason = Annotated[str | None, Option(help="Why; shown in the list of pauses.")]


@dataclass(frozen=True, kw_only=True)
class DefinitionGroup:
    """The commands of a kind."""

    kind: AnyKind
    help: str
    texts: Mapping[str, str]
    """What the help of a command adds, by the name of the command."""
    listed: Sequence[str | Column]
    """The columns of `list` and `versions`: names of fields, or columns of a definition."""
    loses: str = ""
    """What a drop deletes besides the definition, for the question."""
    options: Mapping[str, OptionType] = field(default_factory=dict)
    """Options that set a field in another way than one option with its name."""
    options_set: tuple[str, ...] = ()
    """The fields that these set."""
    apply_options: Callable[[Any, Mapping[str, Any], set[str]], Any] = lambda definition, _values, _changed: definition
    """Makes the definition that they mean, of the one without them, their values, and the names of the other fields that were set."""
    arguments: tuple[str, ...] = ()
    """The fields that `create` takes as arguments, without the name of an option."""
    states: Sequence[Column] = ()
    """The columns of `list` for the state; without them version, status and error."""
    list_rows: Callable[[Session, Connection, str | None], Iterable[Any]] | None = None
    """Other rows for `list`, each a mapping with all its columns."""
    details: Callable[[Session, Connection, Any], Iterable[Table]] = lambda _session, _conn, _state: ()
    """Further tables of `show`."""
    created: Callable[[Session, Connection, Any], tuple[str, Mapping[str, object]]] | None = None
    """What `create` says at its end, and facts for its JSON."""

    def build(self) -> Typer:
        """The group, to which the commands of this kind alone are added."""
        group = Typer(help=self.help)
        _add_readers(group, self)
        _add_writers(group, self)
        _add_pauses(group, self)
        return group

    def on_its_shards(self, session: Session, act: Callable[[Connection], T]) -> list[tuple[Target, T]]:
        """Runs an action where the definition is: on every shard, or on the first one that has it."""
        if self.kind.is_on_one_shard:
            return [session.find(self.kind.unknown, act)]
        return [(target, act(conn)) for target, conn in session.shards()]

    @property
    def name_type(self) -> Any:
        noun = self.kind.noun
        return Annotated[str, Argument(metavar=noun.upper(), help=f"Name of the {noun}.", show_default=False)]

    def field_options(self, *, altering: bool) -> dict[str, OptionType]:
        """The options of `create` or `alter`: one per field, and the special ones."""
        fields = [
            own for own in self.kind.fields if own.name not in ("name", *self.options_set) and not (altering and own.is_fixed)
        ]
        fields.sort(key=lambda own: own.name not in self.arguments)
        options: dict[str, OptionType] = {
            own.name: _option(own, altering=altering, is_argument=own.name in self.arguments) for own in fields
        }
        return {**options, **self.options}

    def columns(self) -> list[Column]:
        by_name = {own.name: own for own in self.kind.fields}
        return [_field_column(by_name[one]) if isinstance(one, str) else one for one in self.listed]

    def of_definition(self, column: Column) -> Column:
        heading = column if isinstance(column, str) else column[0]
        return heading, lambda state: cells([column], self.kind.definition(state))[0]


def _field_column(own: Field) -> Column:
    def cell(definition: Definition) -> object:
        value = own.summarize(getattr(definition, own.name))
        text = " ".join(value.split()) if own.is_long else value
        return text[: TEXT_CHARS_MAX - 1] + "…" if own.is_long and len(text) > TEXT_CHARS_MAX else text

    return own.name.replace("_", " "), cell


def _option(own: Field, *, altering: bool, is_argument: bool) -> OptionType:
    type_ = str if own.is_json or own.base is timedelta else own.base
    is_required = own.is_required and not altering
    text = f"{own.help.rstrip('.')}, or @FILE." if own.is_long else own.help
    default = None if altering or own.is_json or own.default is None else own.default
    shown = False if altering or is_required else own.to_text(own.default) if own.is_json else own.unset or True
    limits: dict[str, Any] = {"min": own.minimum, "max": own.maximum}
    if is_argument and not altering:
        about: Any = Argument(metavar=own.name.upper(), help=text, show_default=shown, **limits)
    else:
        flag = own.name.replace("_", "-")
        name = f"--{flag}/--no-{flag}" if type_ is bool else f"--{flag}"
        about = Option(name, help=text, show_default=shown, **limits)
    annotation = Annotated[type_ if is_required else type_ | None, about]  # type: ignore[valid-type]
    return annotation, (... if is_required else default)


def _field_values(group: DefinitionGroup, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of the fields that options have set."""
    fields = {own.name: own for own in group.kind.fields}
    return {name: _typed(fields[name], value) for name, value in values.items() if name in fields and name not in group.options}


def _typed(own: Field, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    return own.from_text(read_text(value) if own.is_long else value)


def state_facts(kind: AnyKind, state: object) -> dict[str, object]:
    """All fields of a definition and of its state, for JSON."""
    facts: dict[str, object] = msgspec.to_builtins(state)
    definition = facts.pop(kind.noun, {})
    assert isinstance(definition, dict)
    return definition | facts


def _add_readers(group: Typer, own: DefinitionGroup) -> None:
    kind, noun = own.kind, own.kind.noun
    status: list[Column] = [
        "version",
        ("status", lambda state: _status(kind, state)),
        ("", lambda state: first_line(state.error) or state.warning or ""),
    ]

    def list_(session: Session, topic: OptionalTopic = None) -> None:
        read = own.list_rows or (lambda session, conn, topic: kind.list_all(conn, topic=topic, namespace=session.namespace))
        rows = [(target, row) for target, conn in session.shards() for row in read(session, conn, topic)]
        if own.list_rows:
            session.show(own.states, rows, facts=dict)
            return
        name: Column = (noun, lambda state: kind.definition(state).name)
        columns = [name, *map(own.of_definition, own.columns()), *(own.states or status)]
        session.show(columns, rows, facts=lambda state: state_facts(kind, state))

    def show(session: Session, name: str) -> None:
        found, tables = [], []
        for target, (state, details) in own.on_its_shards(session, lambda conn: _read(session, conn, name)):
            facts = asdict(state)
            tables += [facts_table(f"{noun} {name}", target, facts.pop(noun, {}) | facts), *details]
            found.append({"shard": target.name} | state_facts(kind, state))
        session.print(found[0] if kind.is_on_one_shard else found, *tables)

    def _read(session: Session, conn: Connection, name: str) -> tuple[Any, list[Table]]:
        state = kind.get(conn, name, namespace=session.namespace)
        return state, list(own.details(session, conn, state))

    def versions(session: Session, name: str) -> None:
        rows = session.collect(session.bind(kind.versions, name))
        columns: list[Column] = ["version", "written_at", ("by", "written_by"), *own.columns(), ("status", _version_status)]
        if rows and hasattr(rows[0][1], "since_position"):
            columns += [("positions", _positions), ("error", lambda version: first_line(version.error))]
        session.show(columns, rows)

    _add(group, own, "list", f"List {kind.list_name} with their status.", list_)
    _add(group, own, "show", f"Show the definition and the status of one {noun}.", show)
    if kind.version_type is not None:
        _add(group, own, "versions", f"Show all versions of a {noun}, also of a dropped one.", versions)


def _add_writers(group: Typer, own: DefinitionGroup) -> None:
    kind, noun = own.kind, own.kind.noun

    def create(session: Session, name: str, **options: Any) -> None:
        options = {name: value for name, value in options.items() if value != []}
        values = _field_values(own, options)
        definition = own.apply_options(kind.definition_type(name=name, **values), options, set(values))
        key = kind.shard_key(definition)
        message: str = ACTIVATED
        facts: dict[str, object] = {noun: name}
        for target, conn in session.shards([] if key is None else [Shards(session.targets).shard_of(key)]):
            kind.create(conn, definition, namespace=session.namespace)
            if own.created:
                message, more = own.created(session, conn, definition)
                facts |= {"shard": target.name, **more}
        session.done(f"{noun} {name} created; {message}", facts)

    def alter(session: Session, name: str, **options: Any) -> None:
        options = {name: value for name, value in options.items() if value != []}
        if not options:
            raise BadParameter(f"nothing to change; add an option such as --{next(iter(own.field_options(altering=True)))}")
        changed = _field_values(own, options)
        compared, effects = Changes(session), Counter[str]()

        def act(conn: Connection) -> tuple[Definition, Definition]:
            state = kind.get(conn, name, namespace=session.namespace)
            before = kind.definition(state)
            after = own.apply_options(replace(before, **changed), options, set(changed))
            # The source stays as well: the definition still belongs to its file.
            restart = bool(options.get("restart"))
            effects.update(kind.alter(conn, after, namespace=session.namespace, source=state.source, restart=restart))
            return before, kind.definition(kind.get(conn, name, namespace=session.namespace))

        for target, (before, after) in own.on_its_shards(session, act):
            compared.add(
                target, *({one.name: one.summarize(getattr(side, one.name)) for one in kind.fields} for side in (before, after))
            )
        counts = "".join(f", {count} keys {effect}" for effect, count in effects.items())
        texts = {name: value for name, value in options.items() if name != "restart"}
        versioned = f"; {ACTIVATED}" if kind.version_type is not None else ""
        compared.done(f"{noun} {name} changed{versioned}{counts}", {noun: name, "changed": texts, **effects})

    def drop(session: Session, name: str, yes: Yes = False) -> None:
        session.confirm(f"Drop {noun} {name}{own.loses}?", yes=yes)
        own.on_its_shards(session, session.bind(kind.drop, name))
        session.done(f"{noun} {name} dropped", {noun: name})

    shards = "on one shard" if kind.is_on_one_shard else "on every shard"
    versions = "; each change is a new version" if kind.version_type is not None else ""
    _add(group, own, "create", f"Create a {noun}, {shards}.", create, own.field_options(altering=False))
    text = f"Change a {noun}, {shards}{versions}.\n\nOptions that you leave out keep their values."
    restart = (
        {"restart": (Annotated[bool | None, Option("--restart", help="Restart all keys.")], None)} if kind.keeps_state else {}
    )
    _add(group, own, "alter", text, alter, {**own.field_options(altering=True), **restart})
    _add(group, own, "drop", f"Drop a {noun}{own.loses}, {shards}.", drop)


def _add_pauses(group: Typer, own: DefinitionGroup) -> None:
    noun = own.kind.noun

    def pause(session: Session, name: str, reason: Reason = None) -> None:
        acted = own.on_its_shards(session, session.bind(own.kind.pause, name, reason=reason))
        changed = any(is_new for _, is_new in acted)
        state = "is paused" if changed else "was paused already"
        session.done(f"{noun} {name} {state}", {noun: name, "state": "paused", "changed": changed})

    def resume(session: Session, name: str) -> None:
        count = sum(count for _, count in own.on_its_shards(session, session.bind(own.kind.resume, name)))
        session.done(f"{noun} {name} {resumed_text(noun, count)}", {noun: name, "state": "running", "resumed": count})

    _add(group, own, "pause", f"Pause a {noun}. What runs finishes, and nothing new starts within a second.", pause)
    _add(group, own, "resume", f"Resume a paused {noun}.", resume)


def resumed_text(noun: str, count: int) -> str:
    """What a resume of something has done."""
    if not count:
        return "was not paused"
    partitions = f"resumed: {count} partitions"
    held = f"resumed; {count} actions were held"
    return {"consumer": partitions, "relay": partitions, "rule": held}.get(noun, "resumed")


def _add(
    group: Typer,
    own: DefinitionGroup,
    verb: str,
    text: str,
    function: Callable[..., None],
    options: Mapping[str, OptionType] = MappingProxyType({}),
) -> None:
    if "name" in function.__annotations__:
        function.__annotations__["name"] = own.name_type
    function.__doc__ = f"{text}\n\n{own.texts[verb]}" if verb in own.texts else text
    command(group, verb, options=options)(function)


def _status(kind: AnyKind, state: Any) -> str:
    status = f"{state.status}, paused" if state.paused else state.status
    return status if kind.definition(state).active else f"{status}, not active"


def _version_status(version: Any) -> str:
    status = getattr(version, "status", "active" if version.active else "")
    return "dropped" if version.dropped else status if version.active else f"{status}, not active".removeprefix(", ")


def _positions(version: Any) -> str:
    until = "now" if version.until_position is None else version.until_position
    return "none" if version.since_position is None else f"{version.since_position} to {until}"
