"""The store: creates, alters, drops, lists and versions definitions of every kind, through the views headrace.<kind>.

A kind is described once: its class of definitions with their fields, the classes of their states and versions, and what is special to
it. The statements derive from the fields. Promises: what is wrong by itself is rejected before anything is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Generic, Protocol, TypeAlias, TypeVar

from psycopg import AsyncCursor, Cursor, sql

from headrace.core import NotFound
from headrace.db import Connection, fetch_value, map_database_errors
from headrace.definitions.definition import AnyDefinition, Field, fields_of

KNOWN_MAX = 10
"""Names that an error lists."""

T = TypeVar("T")


class DefinitionState(Protocol):
    """A stored definition with its state. The kind's noun is the name of the attribute that has the definition, such as `rule`."""

    @property
    def source(self) -> str: ...


State = TypeVar("State", bound=DefinitionState)
Version = TypeVar("Version")


@dataclass(frozen=True)
class StoredDefinition(Generic[AnyDefinition]):
    """A definition as the database has it, and the source that owns it: a file's name, or `sql`."""

    definition: AnyDefinition
    source: str


class DefinitionKind(Generic[AnyDefinition, State, Version]):
    """A kind of definition. A file holds the definitions of a kind in a list named after it, such as `rules`."""

    noun: ClassVar[str]
    """The name of the SQL view, and of its column with the names."""
    definition_type: type[AnyDefinition]
    state_type: type[State]
    version_type: type[Version] | None = None
    """None: changes are not recorded as versions."""
    unknown: ClassVar[type[NotFound]]
    """The error for a name that does not exist."""
    usual_fields: ClassVar[str]
    """The fields that an entry usually has, for error messages."""
    is_on_one_shard: ClassVar[bool] = False
    """False: every shard has all definitions."""
    keeps_state: ClassVar[bool] = False
    """True: `alter` keeps a state of what ran before, which `restart` gives up."""
    is_recreated: ClassVar[bool] = False
    """True: a plan drops a definition and creates it again where a fixed field differs. False: that is an error."""

    # What is special to a kind

    def check(self, definition: AnyDefinition) -> None:
        """Raises where a definition is wrong by itself; needs no database."""

    def check_in(self, conn: Connection, definition: AnyDefinition, namespace: str | None) -> None:
        """Raises where a definition is wrong by itself or in its namespace, for example by the schemas of its event types."""
        self.check(definition)

    def summary(self, definition: AnyDefinition) -> str:
        """What the definition does, in one line."""
        raise NotImplementedError

    def meaning(self, before: AnyDefinition, after: AnyDefinition) -> str | None:
        """What a change means for events, in one line; None where nothing can be said."""
        return None

    def shard_key(self, definition: AnyDefinition) -> str | None:
        """The key that decides the one shard a definition belongs to; None where every shard has it."""
        return None

    # What derives from the fields

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields of its definitions, in order."""
        return fields_of(self.definition_type)

    @property
    def list_name(self) -> str:
        return f"{self.noun}s"

    def create(self, conn: Connection, definition: AnyDefinition, *, namespace: str | None = None, source: str = "sql") -> int:
        """Creates a definition and returns its id.

        Raises what is wrong before anything is written, such as ConditionError or SchemaFindings; then RuleExists, or what says so
        of another kind, UnknownTopic and UnregisteredName."""
        self.check_in(conn, definition, namespace)
        statement = sql.SQL(
            "insert into headrace.{noun} as r (namespace, source, {columns})"
            " values (headrace.current_namespace(%(namespace)s), %(source)s, {values}) returning {id}"
        ).format(
            noun=sql.Identifier(self.noun),
            columns=sql.SQL(", ").join(map(self._column, self.fields)),
            values=sql.SQL(", ").join(map(_placeholder, self.fields)),
            id=sql.Identifier(f"{self.noun}_id"),
        )
        with map_database_errors():
            row = conn.execute(statement, self._parameters(definition, namespace, source)).fetchone()
        assert row is not None
        return int(row[0])

    def alter(
        self,
        conn: Connection,
        definition: AnyDefinition,
        *,
        namespace: str | None = None,
        source: str = "sql",
        restart: bool = False,
    ) -> Mapping[str, int]:
        """Gives the definition of this name other fields; returns counts of what that affects, such as keys that start afresh.

        Raises as `create` does, and the kind's error for a name that does not exist. `restart` is for kinds that keep state."""
        self.check_in(conn, definition, namespace)
        self.update(conn, definition, namespace=namespace, source=source)
        return {}

    def update(
        self, conn: Connection, definition: AnyDefinition, *, namespace: str | None, source: str, restart: bool = False
    ) -> None:
        """The statement of `alter`, for a definition that is checked."""
        assignments = [
            sql.SQL("{} = {}").format(self._column(field), _placeholder(field)) for field in self.fields if field.name != "name"
        ]
        restarts = sql.SQL(", restart = true" if restart else "")
        statement = sql.SQL(
            "update headrace.{noun} r set {assignments}, source = %(source)s{restarts}"
            " where r.namespace = headrace.current_namespace(%(namespace)s) and r.{noun} = %(name)s"
        ).format(noun=sql.Identifier(self.noun), assignments=sql.SQL(", ").join(assignments), restarts=restarts)
        with map_database_errors():
            changed = conn.execute(statement, self._parameters(definition, namespace, source)).rowcount
        if not changed:
            raise self.unknown_name(conn, definition.name, namespace)

    def drop(self, conn: Connection, name: str, *, namespace: str | None = None) -> None:
        """Drops a definition; its versions, and what came of it, stay on record. Raises the kind's error for an unknown name."""
        statement = sql.SQL(
            "update headrace.{noun} r set dropped = true"
            " where r.namespace = headrace.current_namespace(%(namespace)s) and r.{noun} = %(name)s"
        ).format(noun=sql.Identifier(self.noun))
        with map_database_errors():
            dropped = conn.execute(statement, {"name": name, "namespace": namespace}).rowcount
        if not dropped:
            raise self.unknown_name(conn, name, namespace)

    def pause(self, conn: Connection, name: str, *, reason: str | None = None, namespace: str | None = None) -> bool:
        """Stops what the definition does until `resume`, without changing it; returns False if it was paused already."""
        return bool(fetch_value(conn, "select headrace.pause(%s, %s, %s, %s)", (self.noun, name, reason, namespace)))

    def resume(self, conn: Connection, name: str, *, namespace: str | None = None) -> int:
        """Lets a paused definition go on; returns what goes on, as `headrace.actions.resume` does; 0 if nothing was paused."""
        return int(fetch_value(conn, "select headrace.resume(%s, %s, %s)", (self.noun, name, namespace)))

    def list_all(
        self, conn: Connection, *, topic: str | None = None, name: str | None = None, namespace: str | None = None
    ) -> list[State]:
        """The definitions of a namespace with their state, by name: all, those of a topic, or one."""
        others = [own.name for own in fields(self.state_type) if own.name != self.noun]  # type: ignore[arg-type]
        others = [name for name in others if name not in {field.name for field in self.fields}]
        statement = sql.SQL(
            "select {columns}, {others} from headrace.{view} r where r.namespace = headrace.current_namespace(%(namespace)s)"
            " and (%(topic)s::text is null or r.topic = %(topic)s) and (%(name)s::text is null or r.{noun} = %(name)s)"
            " order by r.{noun}"
        ).format(
            columns=self.columns("r"),
            others=sql.SQL(", ").join(sql.Identifier("r", name) for name in others),
            view=sql.Identifier(f"{self.noun}_state"),
            noun=sql.Identifier(self.noun),
        )
        with map_database_errors(), conn.cursor(row_factory=self.row_factory(self.build_state)) as cursor:
            return cursor.execute(statement, {"topic": topic, "name": name, "namespace": namespace}).fetchall()

    def get(self, conn: Connection, name: str, *, namespace: str | None = None) -> State:
        """The definition of this name with its state. Raises the kind's error for an unknown name."""
        for state in self.list_all(conn, name=name, namespace=namespace):
            return state
        raise self.unknown_name(conn, name, namespace)

    def versions(self, conn: Connection, name: str, *, namespace: str | None = None) -> list[Version]:
        """All versions of a definition, oldest first, also of a dropped one. Raises the kind's error if there never was one."""
        assert self.version_type is not None
        own = {field.name for field in self.fields}
        others = [sql.Identifier("v", other.name) for other in fields(self.version_type) if other.name not in own]  # type: ignore[arg-type]
        statement = sql.SQL(
            "select {columns} from headrace.{view} v"
            " where v.namespace = headrace.current_namespace(%(namespace)s) and v.{noun} = %(name)s order by v.{id}, v.version"
        ).format(
            columns=sql.SQL(", ").join([self.columns("v"), *others]),
            view=sql.Identifier(f"{self.noun}_version"),
            noun=sql.Identifier(self.noun),
            id=sql.Identifier(f"{self.noun}_id"),
        )
        build = self.version_type
        factory = self.row_factory(lambda values, rest: build(**values, **rest))
        with map_database_errors(), conn.cursor(row_factory=factory) as cursor:
            versions = cursor.execute(statement, {"name": name, "namespace": namespace}).fetchall()
        if not versions:
            raise self.unknown(f"there never was a {self.noun} {name!r}; see: headrace {self.noun} list")
        return versions

    def list_stored(self, conn: Connection, namespace: str | None) -> Sequence[StoredDefinition[AnyDefinition]]:
        """All definitions in a namespace, without their state."""
        return [StoredDefinition(self.definition(state), state.source) for state in self.list_all(conn, namespace=namespace)]

    def definition(self, state: State) -> AnyDefinition:
        """The definition of a state."""
        definition: AnyDefinition = getattr(state, self.noun)
        return definition

    def build_state(self, values: dict[str, Any], rest: dict[str, Any]) -> State:
        """Builds a state from the fields' values and the other columns."""
        return self.state_type(**{self.noun: self.definition_type(**values)}, **rest)

    def unknown_name(self, conn: Connection, name: str, namespace: str | None) -> NotFound:
        """The error for a name that does not exist, with some that do."""
        known = [stored.definition.name for stored in self.list_stored(conn, namespace)[:KNOWN_MAX]]
        return self.unknown(f"there is no {self.noun} {name!r}; known {self.list_name}: {', '.join(known) or 'none'}")

    def columns(self, table: str) -> sql.Composed:
        """The columns of the fields in a select list, each named like its field."""
        return sql.SQL(", ").join(
            sql.SQL("{} as {}").format(sql.Identifier(table, self._column_name(field)), sql.Identifier(field.name))
            for field in self.fields
        )

    def row_factory(
        self, build: Callable[[dict[str, Any], dict[str, Any]], T]
    ) -> Callable[[Cursor[Any] | AsyncCursor[Any]], Callable[[Sequence[Any]], T]]:
        """A row factory: `build` gets the values of the fields, and the other columns."""

        def factory(cursor: Cursor[Any] | AsyncCursor[Any]) -> Callable[[Sequence[Any]], T]:
            columns = [column.name for column in cursor.description or ()]

            def row(values: Sequence[Any]) -> T:
                rest = dict(zip(columns, values, strict=True))
                return build({field.name: field.from_column(rest.pop(field.name)) for field in self.fields}, rest)

            return row

        return factory

    def _column_name(self, field: Field) -> str:
        return self.noun if field.name == "name" else field.name

    def _column(self, field: Field) -> sql.Identifier:
        return sql.Identifier(self._column_name(field))

    def _parameters(self, definition: AnyDefinition, namespace: str | None, source: str) -> dict[str, Any]:
        values = {field.name: field.to_column(getattr(definition, field.name)) for field in self.fields}
        return values | {"namespace": namespace, "source": source}


AnyKind: TypeAlias = DefinitionKind[Any, Any, Any]


def _placeholder(field: Field) -> sql.Composable:
    return sql.SQL("{}::jsonb" if field.is_json else "{}").format(sql.Placeholder(field.name))


def field_names(kind: AnyKind) -> tuple[str, ...]:
    return tuple(field.name for field in kind.fields)
