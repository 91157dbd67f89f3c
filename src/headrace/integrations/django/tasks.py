"""A backend for Django's tasks: a task is an action, enqueued in the transaction of the caller.

Owns: the actions `django-task:QUEUE` and the table headrace_task. Promises: a task exists if and only if the transaction that
enqueued it commits; it is run at least once, and not again once it has returned and its value is recorded; a task that raises is
retried like every action, and becomes a dead letter in the end.

    TASKS = {"default": {"BACKEND": "headrace.integrations.django.tasks.HeadraceBackend"}}

A node runs the tasks: `add_tasks(app)` gives an application their handlers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from traceback import format_exception
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.core.exceptions import SuspiciousOperation
from django.db import close_old_connections, connections, transaction
from django.utils import timezone
from django.utils.module_loading import import_string
from uuid_utils.compat import uuid7

from headrace.actions import Action, Attempt, Policy, Result, list_attempts, list_results, send_action
from headrace.core import Invalid
from headrace.db import Connection
from headrace.integrations.django.database import database_alias, psycopg_connection

# Django's task framework: `django.tasks` of Django 6, or for older releases its backport, the package django-tasks.
if TYPE_CHECKING:
    from django.db.models import QuerySet
    from django_tasks import DEFAULT_TASK_QUEUE_NAME, TaskContext, TaskResult, TaskResultStatus, task_backends
    from django_tasks.backends.base import BaseTaskBackend
    from django_tasks.base import Task, TaskError
    from django_tasks.exceptions import TaskResultDoesNotExist
    from django_tasks.signals import task_enqueued, task_finished, task_started
    from django_tasks.utils import normalize_json

    from headrace.actions import ActionHandler
    from headrace.node import Headrace
else:
    try:
        from django.tasks import DEFAULT_TASK_QUEUE_NAME, Task, TaskContext, TaskResult, TaskResultStatus, task_backends
        from django.tasks.backends.base import BaseTaskBackend
        from django.tasks.base import TaskError
        from django.tasks.exceptions import TaskResultDoesNotExist
        from django.tasks.signals import task_enqueued, task_finished, task_started
        from django.utils.json import normalize_json
    except ModuleNotFoundError:
        try:
            from django_tasks import DEFAULT_TASK_QUEUE_NAME, TaskContext, TaskResult, TaskResultStatus, task_backends
            from django_tasks.backends.base import BaseTaskBackend
            from django_tasks.base import Task, TaskError
            from django_tasks.exceptions import TaskResultDoesNotExist
            from django_tasks.signals import task_enqueued, task_finished, task_started
            from django_tasks.utils import normalize_json
        except ModuleNotFoundError:
            raise Invalid(
                "this Django has no tasks framework; install Django 6, or the backport: pip install django-tasks"
            ) from None

POLICY_OPTIONS = {field.name for field in fields(Policy)} - {"ordered"}
OPTIONS = {"database", "namespace"} | POLICY_OPTIONS
_RAISED = re.compile(r"^Traceback \(most recent call last\):\n(?:[ \t].*\n)+([\w.]+)", re.MULTILINE)


class HeadraceBackend(BaseTaskBackend):
    """Enqueues tasks as actions. OPTIONS: `database`, an alias; `namespace`; and the options of a handler, such as `attempts`."""

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        if unknown := set(self.options) - OPTIONS:
            raise Invalid(f"TASKS[{alias!r}] has unknown options {sorted(unknown)}; there are: {', '.join(sorted(OPTIONS))}")
        policy = {name: value for name, value in self.options.items() if name in POLICY_OPTIONS}
        self.database = str(self.options.get("database", database_alias()))
        self.namespace: str | None = self.options.get("namespace")
        self.policy = Policy(**policy)

    def enqueue(self, task: Task[Any, Any], args: Any, kwargs: Any) -> TaskResult[Any]:
        """Writes the task down and sends its action, in the transaction that is open on the database, or in one of its own."""
        self.validate_task(task)
        result = _task_result(task, uuid7(), self.alias, args, kwargs, enqueued_at=timezone.now())
        due = (
            task.run_after if task.run_after is None or timezone.is_aware(task.run_after) else timezone.make_aware(task.run_after)
        )
        # In a transaction this is a savepoint: the caller may catch an error, and finds neither record nor action.
        with transaction.atomic(using=self.database):
            self._store(result)
            send_action(
                psycopg_connection(connections[self.database]),
                action_name(task.queue_name),
                {"task": task.module_path, "backend": self.alias, "args": result.args, "kwargs": result.kwargs},
                id=UUID(result.id),
                priority=task.priority,
                delay=None if due is None else max(due - datetime.now(UTC), timedelta(0)),
                namespace=self.namespace,
            )
        task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> TaskResult[Any]:
        """Returns a task's result. Its status is READY until it has ended: running and waiting tasks look the same."""
        from headrace.integrations.django.models import TaskRecord

        try:
            record = TaskRecord.objects.using(self.database).get(id=UUID(str(result_id)), backend=self.alias)
        except (ValueError, TaskRecord.DoesNotExist):
            raise TaskResultDoesNotExist(result_id) from None
        task = load_task(record.task_path).using(
            priority=record.priority, queue_name=record.queue_name, run_after=record.run_after, backend=self.alias
        )
        result = _task_result(task, record.id, self.alias, record.args, record.kwargs, enqueued_at=record.enqueued_at)
        conn = psycopg_connection(connections[self.database])
        attempts = list_attempts(conn, [record.id], namespace=self.namespace)
        _add_history(result, attempts, list_results(conn, [record.id], namespace=self.namespace))
        if record.finished_at is not None:
            _set(result, status=TaskResultStatus.SUCCESSFUL, finished_at=record.finished_at, _return_value=record.return_value)
        return result

    def _store(self, result: TaskResult[Any]) -> None:
        from headrace.integrations.django.models import TaskRecord

        TaskRecord.objects.using(self.database).create(
            id=result.id,
            task_path=result.task.module_path,
            args=result.args,
            kwargs=result.kwargs,
            backend=self.alias,
            queue_name=result.task.queue_name,
            priority=result.task.priority,
            run_after=result.task.run_after,
            enqueued_at=result.enqueued_at,
        )


def action_name(queue: str) -> str:
    return f"django-task:{queue}"


def add_tasks(app: Headrace, *, queues: Iterable[str] | None = None) -> None:
    """Gives an application the handlers for its namespace's tasks: for all queues in TASKS, or for these."""
    backends = [backend for alias in task_backends.settings if isinstance(backend := task_backends[alias], HeadraceBackend)]
    backends = [backend for backend in backends if backend.namespace == app.namespace]
    known = {queue: backend.policy for backend in backends for queue in backend.queues or {DEFAULT_TASK_QUEUE_NAME}}
    chosen = sorted(known) if queues is None else list(queues)
    if not chosen or set(chosen) - set(known):
        raise Invalid(
            f"TASKS has no HeadraceBackend with the queues {chosen or 'of an application'} in namespace {app.namespace or 'default'}; "
            f"it has: {', '.join(sorted(known)) or 'none'}"
        )
    for queue in chosen:
        app.handle(action_name(queue), _handler(known[queue].attempts), known[queue])


def load_task(path: str) -> Task[Any, Any]:
    """The task at a module path. Raises SuspiciousOperation for anything else: an action's sender must not choose what is called."""
    task = import_string(path)
    if not isinstance(task, Task):
        raise SuspiciousOperation(f"{path} is not a task; decorate the function with @task")
    return task


def _handler(attempts: int) -> ActionHandler:
    def run_task(action: Action, _tx: Connection) -> None:
        """Runs the task on Django's own connections and records its value there.

        Not in the transaction of the ack: if that is rolled back, because another action of its batch fails or the node ends, what
        the task did stays done. The record then tells the next delivery not to run it again."""
        payload: Any = action.payload
        # A connection of this thread may be older than CONN_MAX_AGE, or lost.
        close_old_connections()
        try:
            task = load_task(payload["task"]).using(backend=payload["backend"])
            record = _records(task).filter(id=action.id)
            if record.filter(finished_at__isnull=False).exists():
                return
            arguments = (payload["args"], payload["kwargs"])
            result = _task_result(task, action.id, payload["backend"], *arguments, enqueued_at=action.emitted_at)
            value = _run(result, attempt=action.attempt, is_last=action.attempt >= attempts)
            record.update(finished_at=timezone.now(), return_value=value)
        finally:
            close_old_connections()

    return run_task


def _records(task: Task[Any, Any]) -> QuerySet[Any]:
    from headrace.integrations.django.models import TaskRecord

    backend = task.get_backend()
    assert isinstance(backend, HeadraceBackend)
    return TaskRecord.objects.using(backend.database)


def _run(result: TaskResult[Any], *, attempt: int, is_last: bool) -> Any:
    """Calls the task's function, with the signals that Django sends; returns its value."""
    task, now = result.task, timezone.now()
    _set(result, status=TaskResultStatus.RUNNING, started_at=now, last_attempted_at=now, worker_ids=["headrace"] * attempt)
    sender = type(task.get_backend())
    task_started.send(sender, task_result=result)
    context = [TaskContext(task_result=result)] if task.takes_context else []
    try:
        value = normalize_json(task.call(*context, *result.args, **result.kwargs))
    except Exception as error:
        if is_last:
            error_class = f"{type(error).__module__}.{type(error).__qualname__}"
            result.errors.append(TaskError(exception_class_path=error_class, traceback="".join(format_exception(error))))
            _set(result, status=TaskResultStatus.FAILED, finished_at=timezone.now())
            task_finished.send(sender, task_result=result)
        raise
    _set(result, status=TaskResultStatus.SUCCESSFUL, finished_at=timezone.now(), _return_value=value)
    task_finished.send(sender, task_result=result)
    return value


def _task_result(
    task: Task[Any, Any], id: object, backend: str, args: Any, kwargs: Any, *, enqueued_at: datetime | None
) -> TaskResult[Any]:
    return TaskResult(
        task=task,
        id=str(id),
        status=TaskResultStatus.READY,
        enqueued_at=enqueued_at,
        started_at=None,
        finished_at=None,
        last_attempted_at=None,
        args=list(args),
        kwargs=dict(kwargs),
        backend=backend,
        errors=[],
        worker_ids=[],
    )


def _add_history(result: TaskResult[Any], attempts: Sequence[Attempt], results: Sequence[Result]) -> None:
    starts = [attempt.failed_at - timedelta(seconds=attempt.duration_s or 0) for attempt in attempts]
    workers = [str(attempt.node_id) for attempt in attempts]
    for attempt in attempts:
        result.errors.append(TaskError(exception_class_path=_error_class(attempt), traceback=attempt.traceback or attempt.error))
    if results:
        end = results[-1]
        _set(result, finished_at=end.ended_at, status=TaskResultStatus.FAILED)
        if end.outcome == "done":
            starts.append(end.ended_at - timedelta(seconds=end.duration_s or 0))
            workers.append(str(end.node_id))
            _set(result, status=TaskResultStatus.SUCCESSFUL)
    if starts:
        _set(result, started_at=starts[0], last_attempted_at=starts[-1])
    _set(result, worker_ids=workers)


def _error_class(attempt: Attempt) -> str:
    """The path of the exception's class: the last one that the traceback names."""
    names = _RAISED.findall(attempt.traceback or "")
    name = names[-1] if names else attempt.error.partition(":")[0]
    return name if "." in name else f"builtins.{name}"


def _set(result: TaskResult[Any], **values: object) -> None:
    """A result is frozen for the caller; Django's own backends set its fields in this way."""
    for name, value in values.items():
        object.__setattr__(result, name, value)
