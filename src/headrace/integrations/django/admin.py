"""Read-only admin pages of headrace's views and of the tasks."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Model, QuerySet
from django.http import HttpRequest

from headrace.integrations.django import models
from headrace.integrations.django.database import database_alias


class ReadOnlyAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """Lists and shows rows; whoever may view them can change nothing."""

    actions = None
    # A count of the whole view on every page would read all its rows.
    show_full_result_count = False

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).using(database_alias())

    def _never(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    has_add_permission = has_change_permission = has_delete_permission = _never


PAGES: tuple[tuple[type[Model], str, str, str], ...] = (
    (models.Topic, "topic namespace partitions engine created_at", "", "topic"),
    (models.ConsumerLag, "consumer topic partition state position lag_events lag_s attempts error", "state", "topic consumer"),
    (models.DeadLetter, "name kind source reason error attempts buried_at", "kind state reason", "name source error"),
    (
        models.Rule,
        "rule topic event_type condition action active version status warning",
        "active status",
        "rule event_type action",
    ),
    (models.Correlator, "correlator topic key active version status warning", "active status", "correlator topic"),
    (models.Relay, "relay topic target condition active version status error", "active status", "relay topic target"),
    (models.Schedule, "schedule cron zone type active error", "active", "schedule type"),
    (models.Action, "action namespace description created_at", "", "action"),
    (models.ActionResult, "action action_id outcome attempts duration_s ended_at", "outcome", "action"),
    (models.FailedAttempt, "action action_id attempt error follows retry_at failed_at", "follows", "action error"),
    (models.Node, "name state version started_at heartbeat_at", "", "name"),
    (models.LoopFailure, "kind name error failures first_at last_at retry_at", "kind", ""),
    (models.TaskRecord, "task_path queue_name priority enqueued_at run_after finished_at", "", "task_path"),
)
"""The page of each model: its columns, its filters, and the fields that its search box looks through, separated by blanks."""

for model, columns, filters, searched in PAGES:
    admin.site.register(
        model, ReadOnlyAdmin, list_display=columns.split(), list_filter=filters.split(), search_fields=searched.split()
    )
