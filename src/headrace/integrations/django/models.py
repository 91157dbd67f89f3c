"""Models: headrace's views, read-only, and the record of the tasks that Django has enqueued.

A reader sees the rows of the namespaces that the database's role may read, as in SQL. The first migration derives what it tells Django
about the views from these classes."""

from __future__ import annotations

from datetime import datetime, timedelta
from types import NoneType
from typing import Any, ClassVar, NoReturn, get_args, get_type_hints

from django.db import models
from django.db.models.expressions import Col

from headrace.core import Conflict
from headrace.correlators import CORRELATORS
from headrace.definitions import AnyKind
from headrace.relays import RELAYS
from headrace.rules import RULES
from headrace.schedules import SCHEDULES


class RowKey(models.TextField):  # type: ignore[type-arg]
    """The primary key of a view that has none: Django and its admin need one column that identifies a row.

    It has the columns that together identify a row, joined by slashes. It is computed in queries; the view needs no such column."""

    def __init__(self, *columns: str, **_options: object) -> None:
        self.columns = columns
        super().__init__(primary_key=True, editable=False)

    def deconstruct(self) -> Any:
        name, path, _arguments, _options = super().deconstruct()
        return name, path, list(self.columns), {}

    def get_col(self, alias: Any, output_field: Any = None) -> Any:
        return _JoinedColumns(alias, self, output_field)


class _JoinedColumns(Col):
    target: RowKey

    def as_sql(self, compiler: Any, connection: Any) -> Any:
        statement, parameters = super().as_sql(compiler, connection)
        table = statement.rpartition(".")[0]
        columns = ", ".join(f"{table}.{connection.ops.quote_name(column)}" for column in self.target.columns)
        return f"concat_ws('/', {columns})", parameters


class ReadOnlyModel(models.Model):
    """A row of a view of schema headrace. Change definitions with files, `manage.py headrace …` or headrace's functions."""

    title: ClassVar[str]
    """The text of a row `0`, as a format string."""
    namespace = models.TextField()

    class Meta:
        abstract = True
        managed = False

    def __str__(self) -> str:
        return self.title.format(self)

    def save(self, *_arguments: Any, **_options: Any) -> NoReturn:
        raise Conflict(f"{self._meta.verbose_name} is a view; change it with headrace's functions or manage.py headrace")

    def delete(self, *_arguments: Any, **_options: Any) -> NoReturn:
        raise Conflict(f"{self._meta.verbose_name} is a view; delete with headrace's functions or manage.py headrace")


def view(name: str, *ordering: str, **options: str) -> Any:
    """What Django has to know of a view: its name, and the order of its rows."""
    return type("Meta", (ReadOnlyModel.Meta,), {"db_table": f'"headrace"."{name}"', "ordering": ordering, **options})


COLUMNS: dict[Any, type[models.Field[Any, Any]]] = {
    bool: models.BooleanField,
    int: models.BigIntegerField,
    float: models.FloatField,
    datetime: models.DateTimeField,
    timedelta: models.DurationField,
}
"""The columns of values by their types; every other type is text."""


def definition_model(kind: AnyKind) -> Any:
    """The model of a kind of definition: the fields of its definitions and of their states, as `list` shows them."""
    columns: dict[str, Any] = {}
    for name, type_ in get_type_hints(kind.state_type).items():
        types = set(get_args(type_)) or {type_}
        columns[name] = COLUMNS.get(next(iter(types - {NoneType})), models.TextField)(null=NoneType in types)
    for field in kind.fields:
        column = models.JSONField if field.is_json else COLUMNS.get(field.base, models.TextField)
        columns[field.name] = column(null=field.is_optional)
    columns[kind.noun] = columns.pop("name")
    columns[f"{kind.noun}_id"] = models.IntegerField(primary_key=True)
    members = {"__module__": __name__, "title": f"{{0.{kind.noun}}}", "Meta": view(f"{kind.noun}_state", "namespace", kind.noun)}
    return type(kind.noun.capitalize(), (ReadOnlyModel,), columns | members)


Rule = definition_model(RULES)
Correlator = definition_model(CORRELATORS)
Relay = definition_model(RELAYS)
Schedule = definition_model(SCHEDULES)


class OnNode(ReadOnlyModel):
    """What became of an action on a node."""

    action = models.TextField()
    action_id = models.UUIDField()
    node_id = models.UUIDField(null=True)
    duration_s = models.FloatField(null=True)

    class Meta(ReadOnlyModel.Meta):
        abstract = True


class Topic(ReadOnlyModel):
    title = "{0.topic}"
    topic_id = models.IntegerField(primary_key=True)
    topic = models.TextField()
    partitions = models.IntegerField()
    engine = models.TextField()
    created_at = models.DateTimeField()
    Meta = view("topic", "namespace", "topic")


class ConsumerLag(ReadOnlyModel):
    title = "{0.topic}/{0.consumer}"
    row_key = RowKey("namespace", "topic", "consumer", "partition")
    topic = models.TextField()
    consumer = models.TextField()
    partition = models.IntegerField()
    position = models.BigIntegerField()
    state = models.TextField()
    attempts = models.IntegerField()
    retry_at = models.DateTimeField(null=True)
    error = models.TextField(null=True)
    lag_events = models.BigIntegerField()
    lag_s = models.FloatField()
    Meta = view("consumer_lag", "namespace", "topic", "consumer", "partition", verbose_name_plural="consumer lag")


class DeadLetter(ReadOnlyModel):
    title = "{0.source}: {0.name}"
    row_key = RowKey("namespace", "kind", "dead_letter_id")
    kind = models.TextField()
    dead_letter_id = models.BigIntegerField()
    source = models.TextField()
    message_id = models.UUIDField(db_column="id")
    name = models.TextField()
    key = models.TextField(null=True)
    payload = models.JSONField()
    state = models.TextField()
    reason = models.TextField()
    error = models.TextField(null=True)
    attempts = models.IntegerField()
    buried_at = models.DateTimeField()
    Meta = view("dead_letter", "-buried_at")


class Action(ReadOnlyModel):
    title = "{0.action}"
    row_key = RowKey("namespace", "action")
    action = models.TextField()
    description = models.TextField(null=True)
    created_at = models.DateTimeField()
    Meta = view("action", "namespace", "action")


class ActionResult(OnNode):
    title = "{0.action} {0.action_id}: {0.outcome}"
    row_key = RowKey("action_id", "ended_at")
    ended_at = models.DateTimeField()
    attempts = models.IntegerField()
    outcome = models.TextField()
    Meta = view("action_result", "-ended_at")


class FailedAttempt(OnNode):
    title = "{0.action} {0.action_id}: {0.error}"
    row_key = RowKey("action_id", "failed_at")
    failed_at = models.DateTimeField()
    attempt = models.IntegerField()
    error = models.TextField()
    traceback = models.TextField(null=True)
    follows = models.TextField()
    retry_at = models.DateTimeField(null=True)
    Meta = view("attempt", "-failed_at")


class Node(ReadOnlyModel):
    title = "{0.name}"
    node_id = models.UUIDField(primary_key=True)
    name = models.TextField()
    state = models.TextField()
    version = models.TextField()
    description = models.TextField(null=True)
    started_at = models.DateTimeField()
    heartbeat_at = models.DateTimeField()
    stopped_at = models.DateTimeField(null=True)
    Meta = view("node_state", "-started_at")


class LoopFailure(ReadOnlyModel):
    title = "{0.kind} {0.name}"
    row_key = RowKey("kind", "namespace", "name")
    kind = models.TextField()
    name = models.TextField()
    error = models.TextField()
    failures = models.BigIntegerField()
    first_at = models.DateTimeField()
    last_at = models.DateTimeField()
    retry_at = models.DateTimeField(null=True)
    Meta = view("failure", "-last_at")


class TaskRecord(models.Model):
    """A task that Django has enqueued: its arguments and its return value. How it ended is in headrace.action_result."""

    id = models.UUIDField(primary_key=True)
    task_path = models.TextField()
    args = models.JSONField()
    kwargs = models.JSONField()
    backend = models.TextField()
    queue_name = models.TextField()
    priority = models.IntegerField()
    run_after = models.DateTimeField(null=True)
    enqueued_at = models.DateTimeField(db_index=True)
    finished_at = models.DateTimeField(null=True)
    return_value = models.JSONField(null=True)

    class Meta:
        db_table = "headrace_task"
        ordering = ("-enqueued_at",)
        verbose_name = "task"

    def __str__(self) -> str:
        return self.task_path
