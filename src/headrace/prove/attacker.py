"""A tenant that attacks: random calls on everything it can reach, with identifiers of another namespace.

It walks the catalog as the tenant and builds the arguments of each function and the columns of each view by their types. Its
transactions have random isolation levels, hold locks for a stated time, change role and search_path, and create temporary objects.
It sends typed nulls, too: the result of a subquery without rows is a null of its column's type, and such a null passes the constraints
of a domain. It reports which statements showed a secret of the other namespace; whether that is unharmed is for the caller to check.
The same seed gives the same attempts as long as the catalog is the same."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import psycopg
from psycopg import sql
from psycopg.abc import DumperKey
from psycopg.adapt import Dumper, PyFormat
from psycopg.conninfo import conninfo_to_dict

from headrace.db import Connection, Target, connect, query

STATEMENT_MS_MAX = 2_000
HOLD_S_MAX = 0.2
"""How long a transaction of the attacker stays open after its last statement."""
STATEMENTS_MAX = 4
CALLER_TYPE = "headrace_internal.caller"
_ISOLATION = ("read committed", "repeatable read", "serializable", "serializable, read only, deferrable")


@dataclass(frozen=True)
class Identifiers:
    """What the attacker knows of the other namespace: names, numbers (ids, positions) and uuids.

    `by_column` are values of columns, such as topic_id: a parameter of that name gets one of them most of the time.
    `secret` is a text in the data of the namespace that nobody else may read."""

    by_column: Mapping[str, tuple[str, ...]]
    names: tuple[str, ...]
    numbers: tuple[int, ...]
    uuids: tuple[str, ...]
    secret: str | None = None


@dataclass(frozen=True)
class AttackReport:
    """How many statements ended how: `ok`, or an SQLSTATE. `succeeded` counts the former by what was called.

    `leaked` counts statements whose rows or error held the other namespace's secret."""

    calls: int
    outcomes: Counter[str]
    succeeded: Counter[str]
    leaked: Counter[str]


@dataclass(frozen=True)
class TypedParameter:
    """A parameter of a statement that is sent with the oid of its type, which the sender need not be able to name."""

    text: str | None
    type_oid: int


class _TypedDumper(Dumper):
    """Sends the text of a TypedParameter with its own oid."""

    def get_key(self, obj: TypedParameter, format: PyFormat) -> DumperKey:
        # psycopg keeps a dumper per key: one for each type.
        return (self.cls, obj.type_oid)  # type: ignore[return-value]

    def upgrade(self, obj: TypedParameter, format: PyFormat) -> _TypedDumper:
        dumper = type(self)(self.cls)
        dumper.oid = obj.type_oid
        return dumper

    def dump(self, obj: TypedParameter) -> bytes | None:
        return None if obj.text is None else obj.text.encode()


def send_typed(
    conn: Connection, text: sql.Composable | str, parameters: Sequence[TypedParameter]
) -> psycopg.RawCursor[tuple[object, ...]]:
    """Executes a statement whose parameters $1, $2 … have the types of the given oids."""
    conn.adapters.register_dumper(TypedParameter, _TypedDumper)
    cursor = psycopg.RawCursor(conn)
    return cursor.execute(text.encode() if isinstance(text, str) else text.as_bytes(conn), parameters)


def typed_null(number: int) -> sql.Composable:
    """Builds a null with the type of parameter $number, so that no constraint of a domain is checked."""
    return sql.SQL("(select {} where false)").format(sql.SQL("$") + sql.Literal(number))


@dataclass(frozen=True)
class _Function:
    schema: str
    name: str
    parameters: tuple[str, ...]
    types: tuple[str, ...]
    type_oids: tuple[int, ...]
    defaults: int
    is_procedure: bool


@dataclass(frozen=True)
class _Relation:
    schema: str
    name: str
    columns: tuple[str, ...]
    types: tuple[str, ...]


@dataclass(frozen=True)
class _Statement:
    label: str
    text: sql.Composed | sql.SQL
    parameters: tuple[TypedParameter, ...] = ()


@dataclass
class _Attacker:
    random: random.Random
    other: Identifiers
    own: Identifiers
    role: str
    functions: Sequence[_Function] = ()
    reachable: Sequence[_Function] = ()
    relations: Sequence[_Relation] = ()
    visible: Sequence[_Relation] = ()
    outcomes: Counter[str] = field(default_factory=Counter)
    succeeded: Counter[str] = field(default_factory=Counter)
    leaked: Counter[str] = field(default_factory=Counter)

    def walk_catalog(self, conn: Connection) -> None:
        """What exists, and what of it the tenant may call and read."""
        functions = [
            # Output columns of a function have names, too: only the first belong to arguments.
            (_Function(schema, name, tuple(names[: len(types)]), tuple(types), tuple(oids), defaults, procedure), may)
            for schema, name, names, defaults, procedure, types, oids, may in conn.execute(
                query("prove/attackable_functions")
            ).fetchall()
        ]
        self.functions = [function for function, _ in functions]
        self.reachable = [function for function, may in functions if may] or self.functions
        relations = [
            (_Relation(s, n, tuple(c), tuple(t)), may)
            for s, n, c, t, may in conn.execute(query("prove/attackable_relations")).fetchall()
        ]
        self.relations = [relation for relation, _ in relations]
        self.visible = [relation for relation, may in relations if may] or self.relations

    def is_secret(self, text: str) -> bool:
        return self.other.secret is not None and self.other.secret in text

    def statement(self) -> _Statement:
        choice = self.random.random()
        if choice < 0.65:
            return self._call()
        return self._data() if choice < 0.85 else self._disturbance()

    def _call(self) -> _Statement:
        function = self.random.choice(self.reachable if self.random.random() < 0.9 else self.functions)
        required = len(function.types) - function.defaults
        optional = self.random.choice((0.1, 0.6))
        parameters: list[TypedParameter] = []
        arguments = []
        for number, (name, type_) in enumerate(zip(function.parameters, function.types, strict=False)):
            # The caller is forged only now and then: it must not hide what the call would do otherwise.
            if not name or (number >= required and self.random.random() > (0.15 if type_ == CALLER_TYPE else optional)):
                continue
            if self.random.random() < (0.8 if type_ == CALLER_TYPE else 0.05):
                parameters.append(TypedParameter(self.role if type_ == CALLER_TYPE else None, function.type_oids[number]))
                value: sql.Composable = typed_null(len(parameters))
            else:
                value = self._value(type_, name)
            arguments.append(sql.SQL("{} => {}").format(sql.Identifier(name), value))
        text = "call {}({})" if function.is_procedure else "select * from {}({})"
        target = sql.Identifier(function.schema, function.name)
        call = sql.SQL(text).format(target, sql.SQL(", ").join(arguments))
        return _Statement(f"{function.schema}.{function.name}", call, tuple(parameters))

    def _data(self) -> _Statement:
        relation = self.random.choice(self.visible if self.random.random() < 0.8 else self.relations)
        target = sql.Identifier(relation.schema, relation.name)
        columns = self.random.sample(range(len(relation.columns)), self.random.randint(1, len(relation.columns)))
        names = [sql.Identifier(relation.columns[column]) for column in columns]
        values = [self._value(relation.types[column], relation.columns[column]) for column in columns]
        condition = sql.SQL("{} = {}").format(names[0], values[0])
        pairs = sql.SQL(", ").join(sql.SQL("{} = {}").format(name, value) for name, value in zip(names, values, strict=True))
        joined = sql.SQL(", ")
        verb = self.random.choice(("select", "insert", "update", "delete", "for update", "for share", "overriding", "truncate"))
        match verb:
            case "insert" | "overriding":
                overriding = sql.SQL("overriding system value " if verb == "overriding" else "")
                text = sql.SQL("insert into {} ({}) {}values ({})").format(
                    target, joined.join(names), overriding, joined.join(values)
                )
            case "update":
                text = sql.SQL("update {} set {} where {}").format(target, pairs, condition)
            case "delete":
                text = sql.SQL("delete from {} where {}").format(target, condition)
            case "truncate":
                text = sql.SQL("truncate {}").format(target)
            case _:
                text = sql.SQL("select * from {} limit 50 {}").format(target, sql.SQL("" if verb == "select" else verb))
        return _Statement(f"{verb} {relation.schema}.{relation.name}", text)

    def _disturbance(self) -> _Statement:
        relation = self.random.choice(self.relations)
        target = sql.Identifier(relation.schema, relation.name)
        name, number = sql.Identifier(self._name()), sql.Literal(self.random.choice((*self.other.numbers, 0, 1, -1)))
        texts = (
            sql.SQL("lock table {} in {} mode").format(target, sql.SQL(self.random.choice(("access share", "share", "exclusive", "access exclusive")))),
            sql.SQL("select pg_advisory_xact_lock({})").format(number),
            sql.SQL("select pg_advisory_xact_lock({}, {})").format(sql.Literal(0x61726368), number),
            sql.SQL("set local search_path = pg_temp, public, headrace, {}").format(name),
            sql.SQL("set local role {}").format(name),
            sql.SQL("set local session_replication_role = replica"),
            sql.SQL("select set_config({}, {}, true)").format(
                sql.Literal(self.random.choice(("headrace.namespace", "headrace.clock_shift", "headrace.node"))),
                sql.Literal(self.random.choice((*self.other.names, "9000 years", "-9000 years", ""))),
            ),
            sql.SQL("create temporary table {} (namespace text, topic text, topic_id int) on commit drop").format(name),
            sql.SQL("create function pg_temp.{}() returns text language sql as 'select null::text'").format(name),
            sql.SQL("create function public.concat_ws(text, text, integer) returns text language sql as 'select null::text'"),
            sql.SQL("create table {} (x int)").format(sql.Identifier("headrace", self._name())),
            sql.SQL("listen {}").format(name),
            sql.SQL("notify {}, {}").format(name, sql.Literal(self._name())),
            sql.SQL("select pg_sleep({})").format(sql.Literal(self.random.uniform(0, HOLD_S_MAX))),
        )  # fmt: skip
        text = self.random.choice(texts)
        return _Statement("disturbance", text)

    def _name(self) -> str:
        return self.random.choice((*self.other.names, *self.own.names, "postgres", "x"))

    def _value(self, type_: str, name: str) -> sql.Composable:
        """Mostly what the other namespace has, sometimes what its own has, and sometimes an odd value."""
        if type_.endswith("[]"):
            items = [self._plain(type_[:-2], name) for _ in range(self.random.choice((0, 1, 1, 3)))]
            quoted = (item.replace("\\", "\\\\").replace('"', '\\"') for item in items)
            return sql.Literal("{" + ",".join(f'"{item}"' for item in quoted) + "}")
        if self.random.random() < 0.05:
            return sql.NULL
        return sql.Literal(self._plain(type_, name))

    def _plain(self, type_: str, name: str) -> str:
        pick = self.random.choice
        odd = self.random.random() < 0.15
        # A call in the own namespace with ids of the other one gets furthest.
        known = self.own if self.random.random() < (0.5 if name == "p_namespace" else 0.2) else self.other
        fitting = known.by_column.get(name.removeprefix("p_"))
        if fitting and self.random.random() < 0.8:
            return pick(fitting)
        match type_:
            case "smallint" | "integer" | "bigint" | "numeric" | "double precision" | "real" | "oid":
                numbers = ("0", "-1", "2147483647", "9223372036854775807", "-9223372036854775808", "1e300", "NaN", "infinity")
                return pick(numbers) if odd else str(pick(known.numbers))
            case "uuid":
                return "00000000-0000-0000-0000-000000000000" if odd else pick(known.uuids)
            case "jsonb" | "json":
                text = json.dumps(self._object(known))
                return (
                    pick(("{", "null", "[]", '{"a": 1e400}', "[" * 50 + "]" * 50))
                    if odd
                    else pick((text, text, f"[{text}]", "{}", "1"))
                )
            case "boolean":
                return pick(("true", "false"))
            case _ if type_.startswith(("timestamp", "date", "time ")):
                return (
                    pick(("infinity", "-infinity", "0001-01-01", "9999-12-31")) if odd else pick(("now", "yesterday", "tomorrow"))
                )
            case "interval":
                return pick(("200000 years", "-1 second", "0")) if odd else pick(("1 second", "1 day"))
        return (
            pick(("", "a" * 300, "'; drop schema headrace cascade; --", "\x01"))
            if odd
            else pick((*known.names, "* * * * *", "earliest", "latest"))
        )

    def _object(self, known: Identifiers) -> dict[str, object]:
        """One object that serves as event, action, and list of archived events."""
        pick = self.random.choice
        number, ids = str(pick(known.numbers)), [pick(known.uuids) for _ in range(3)]
        event = {"topic": known.names[0], "type": "placed", "payload": "1", "topic_id": number, "id": ids[0], "action": "NOTIFY"}
        return event | {"event_ids": ids, "positions": [number], "times": []}


def known_identifiers(conn: Connection, namespace: str, *, secret: str | None = None) -> Identifiers:
    """The identifiers of a namespace, read as the owner: what an attacker could guess. `secret`: see Identifiers."""
    values_by_column: dict[str, list[str]] = {}
    for column, value in conn.execute(query("prove/known_identifiers"), {"namespace": namespace}).fetchall():
        values_by_column.setdefault(column, []).append(value)
    by_column = {column: tuple(values) for column, values in values_by_column.items()} | {
        "namespace": (namespace,),
        "type": ("placed",),
        "event_type": ("placed",),
        "action": ("NOTIFY",),
        "cron": ("* * * * *",),
        "partition": ("0", "1"),
        "level": ("publish", "consume", "work", "admin"),
    }
    names = [
        name for column in ("topic", "consumer", "schedule", "rule", "relay", "hook") for name in values_by_column.get(column, ())
    ]
    numbers = [int(id_) for column in ("topic_id", "consumer_id", "schedule_id") for id_ in values_by_column.get(column, ())]
    uuids = [*values_by_column.get("event_id", ()), *values_by_column.get("action_id", ())] or [
        "00000000-0000-7000-8000-000000000000"
    ]
    return Identifiers(
        by_column, (*names, "placed", "NOTIFY", f"hr_{namespace}", namespace), (*numbers, *range(6)), tuple(uuids), secret
    )


def attack(dsn: str, other: Identifiers, calls: int, seed: int, *, own: Identifiers | None = None) -> AttackReport:
    """Issues `calls` random statements as the tenant of a DSN, in random transactions."""
    target = Target("attacker", dsn)
    attacker = _Attacker(random.Random(seed), other, own or other, str(conninfo_to_dict(dsn)["user"]))
    remaining = calls
    while remaining > 0:
        with connect(target) as conn:
            conn.execute(f"set statement_timeout = {STATEMENT_MS_MAX}")
            conn.execute("select set_config('headrace.namespace', %s, false)", (attacker.own.by_column["namespace"][0],))
            attacker.walk_catalog(conn)
            _take_ids(conn, attacker)
            for size in _sizes(attacker.random, min(remaining, 2_000)):
                _run_transaction(conn, attacker, size)
                remaining -= size
                if conn.closed:
                    break
    return AttackReport(calls, attacker.outcomes, attacker.succeeded, +attacker.leaked)


def _take_ids(conn: Connection, attacker: _Attacker) -> None:
    """Sends actions of its own with ids of the other namespace: who looks an id up without its namespace takes them for those."""
    namespace = attacker.own.by_column["namespace"][0]
    actions = [json.dumps({"id": id_, "action": "NOTIFY"}) for id_ in attacker.other.uuids]
    # A role without any level cannot.
    with suppress(psycopg.Error), conn.transaction():
        conn.execute("select headrace.send_actions(%s, %s::jsonb[])", (namespace, actions))


def _sizes(source: random.Random, total: int) -> Iterator[int]:
    while total > 0:
        size = min(source.randint(1, STATEMENTS_MAX), total)
        total -= size
        yield size


def _execute(conn: Connection, statement: _Statement) -> str:
    """Executes a statement, and returns its rows as text."""
    cursor = send_typed(conn, statement.text, statement.parameters) if statement.parameters else conn.execute(statement.text)
    return str(cursor.fetchall()) if cursor.description else ""


def _run_transaction(conn: Connection, attacker: _Attacker, size: int) -> None:
    """Statements in one transaction; each failure is rolled back to its savepoint, so that the next one runs."""
    roll = attacker.random.random()
    statements = [attacker.statement() for _ in range(size)]
    try:
        with conn.transaction(force_rollback=roll < 0.3):
            conn.execute(f"set transaction isolation level {attacker.random.choice(_ISOLATION)}")
            for statement in statements:
                try:
                    with conn.transaction():
                        rows = _execute(conn, statement)
                except psycopg.Error as error:
                    attacker.leaked[statement.label] += attacker.is_secret(str(error))
                    attacker.outcomes[error.sqlstate or type(error).__name__] += 1
                    if conn.closed:
                        return
                else:
                    attacker.outcomes["ok"] += 1
                    attacker.succeeded[statement.label] += 1
                    attacker.leaked[statement.label] += attacker.is_secret(rows)
            if roll > 0.95:
                conn.execute("select pg_sleep(%s)", (attacker.random.uniform(0, HOLD_S_MAX),))
    except psycopg.Error as error:
        attacker.outcomes[f"commit {error.sqlstate}"] += 1
