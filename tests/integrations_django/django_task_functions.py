"""Tasks for the tests."""

from __future__ import annotations

from django_tasks import TaskContext, task
from shop.models import Order


class OutOfPaper(Exception):
    """What a task raises."""


@task
def add(a: int, b: int) -> int:
    return a + b


@task
async def add_async(a: int, b: int) -> int:
    return a + b


@task(queue_name="mails")
def note(text: str) -> None:
    """An effect that shows how often it happened."""
    Order.objects.create(customer=text, total=0)


@task(queue_name="mails")
def fail(reason: str) -> None:
    raise OutOfPaper(reason)


@task(takes_context=True)
def describe(context: TaskContext) -> list[object]:
    return [context.task_result.id, context.attempt, context.task_result.status]


def not_a_task() -> None:
    raise AssertionError("an action must not be able to call any function")
