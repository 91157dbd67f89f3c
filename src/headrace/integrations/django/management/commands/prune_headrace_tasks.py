"""`manage.py prune_headrace_tasks`: deletes the records of old tasks."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand
from django.utils import timezone

from headrace.integrations.django.database import database_alias
from headrace.integrations.django.models import TaskRecord


class Command(BaseCommand):
    """Deletes records of tasks, not the tasks: one that still waits is run all the same, but its result cannot be read."""

    help = "Deletes the records of tasks that were enqueued long ago. headrace keeps the outcome of an action for 30 days."

    def add_arguments(self, parser: Any) -> None:
        parser.add_argument("--days", type=int, default=30, help="Keep the records of this many days; default 30.")
        parser.add_argument("--database", help="Alias of the database, instead of HEADRACE_DATABASE.")

    def handle(self, *_arguments: object, days: int, database: str | None, **_options: object) -> None:
        records = TaskRecord.objects.using(database or database_alias())
        count, _ = records.filter(enqueued_at__lt=timezone.now() - timedelta(days=days)).delete()
        self.stdout.write(f"{count} records of tasks deleted")
