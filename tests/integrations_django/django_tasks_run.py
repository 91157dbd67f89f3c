"""Enqueues tasks with Django, runs a node in this process until they have ended, and prints as JSON what became of them."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import suppress
from datetime import timedelta
from typing import Any

import django

django.setup()

from django.db import connection, transaction  # noqa: E402
from django.utils import timezone  # noqa: E402
from shop.models import Order  # noqa: E402

from headrace import Headrace, Node, PayloadTooLarge, Target, send_action  # noqa: E402
from headrace.integrations.django.database import database_dsn, psycopg_connection  # noqa: E402
from headrace.integrations.django.models import ActionResult, TaskRecord  # noqa: E402
from headrace.integrations.django.tasks import add_tasks  # noqa: E402
from tests.integrations_django.django_task_functions import add, add_async, describe, fail, note  # noqa: E402


def enqueue() -> dict[str, Any]:
    with transaction.atomic():
        add.enqueue(1, 1)
        transaction.set_rollback(True)
    with transaction.atomic():
        # The caller's transaction stays usable after an error.
        with suppress(PayloadTooLarge):
            note.enqueue("x" * 20_000_000)
        results = {
            "sync": add.enqueue(2, b=3),
            "async": add_async.enqueue(4, 5),
            "queue": add.using(queue_name="mails", priority=7).enqueue(6, 7),
            **{f"note {n}": note.enqueue(f"note {n}") for n in range(3)},
            "failing": fail.enqueue("no paper"),
            **{f"note {n}": note.enqueue(f"note {n}") for n in range(3, 6)},
            "context": describe.enqueue(),
            "deferred": add.using(run_after=timezone.now() + timedelta(hours=1)).enqueue(1, 1),
        }
    payload = {
        "task": "tests.integrations_django.django_task_functions.not_a_task",
        "backend": "default",
        "args": [],
        "kwargs": {},
    }
    send_action(psycopg_connection(connection), "django-task:default", payload)
    return results


async def run(dsn: str, ends: int) -> None:
    app = Headrace()
    add_tasks(app)
    node = Node(app, [Target("main", dsn)])
    running = asyncio.create_task(node.run())
    async with asyncio.timeout(30):
        while await ActionResult.objects.acount() < ends:
            await asyncio.sleep(0.02)
    node.stop()
    await running


def outcome(result: Any) -> dict[str, object]:
    before = result.status
    result.refresh()
    errors = [error.exception_class.__name__ for error in result.errors]
    value = result.return_value if result.status == "SUCCESSFUL" else None
    return {
        "id": result.id,
        "before": before,
        "status": result.status,
        "value": value,
        "errors": errors,
        "attempts": result.attempts,
    }


if __name__ == "__main__":
    results = enqueue()
    records = TaskRecord.objects.count()
    asyncio.run(run(database_dsn("default"), ends=len(results)))
    outcomes = {name: outcome(result) for name, result in results.items()}
    notes = sorted(Order.objects.values_list("customer", flat=True))
    json.dump({"records": records, "outcomes": outcomes, "notes": notes}, sys.stdout)
