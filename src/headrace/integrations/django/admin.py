"""Read-only admin pages of headrace's views and of the tasks."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
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

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(models.Topic)
class TopicAdmin(ReadOnlyAdmin):
    list_display = ("topic", "namespace", "partitions", "engine", "created_at")
    search_fields = ("topic",)


@admin.register(models.ConsumerLag)
class ConsumerLagAdmin(ReadOnlyAdmin):
    list_display = ("consumer", "topic", "partition", "state", "position", "lag_events", "lag_s", "attempts", "error")
    list_filter = ("state",)
    search_fields = ("topic", "consumer")


@admin.register(models.DeadLetter)
class DeadLetterAdmin(ReadOnlyAdmin):
    list_display = ("name", "kind", "source", "reason", "error", "attempts", "buried_at")
    list_filter = ("kind", "state", "reason")
    search_fields = ("name", "source", "error")


@admin.register(models.Rule)
class RuleAdmin(ReadOnlyAdmin):
    list_display = ("rule", "topic", "event_type", "condition", "action", "active", "version", "status", "warning")
    list_filter = ("active", "status")
    search_fields = ("rule", "event_type", "action")


@admin.register(models.Correlator)
class CorrelatorAdmin(ReadOnlyAdmin):
    list_display = ("correlator", "topic", "key", "active", "version", "status", "warning")
    list_filter = ("active", "status")
    search_fields = ("correlator", "topic")


@admin.register(models.Schedule)
class ScheduleAdmin(ReadOnlyAdmin):
    list_display = ("schedule", "cron", "zone", "type", "active", "error")
    list_filter = ("active",)
    search_fields = ("schedule", "type")


@admin.register(models.Action)
class ActionAdmin(ReadOnlyAdmin):
    list_display = ("action", "namespace", "description", "created_at")
    search_fields = ("action",)


@admin.register(models.ActionResult)
class ActionResultAdmin(ReadOnlyAdmin):
    list_display = ("action", "action_id", "outcome", "attempts", "duration_s", "ended_at")
    list_filter = ("outcome",)
    search_fields = ("action",)


@admin.register(models.FailedAttempt)
class FailedAttemptAdmin(ReadOnlyAdmin):
    list_display = ("action", "action_id", "attempt", "error", "follows", "retry_at", "failed_at")
    list_filter = ("follows",)
    search_fields = ("action", "error")


@admin.register(models.Node)
class NodeAdmin(ReadOnlyAdmin):
    list_display = ("name", "state", "version", "started_at", "heartbeat_at")
    search_fields = ("name",)


@admin.register(models.LoopFailure)
class LoopFailureAdmin(ReadOnlyAdmin):
    list_display = ("kind", "name", "error", "failures", "first_at", "last_at", "retry_at")
    list_filter = ("kind",)


@admin.register(models.TaskRecord)
class TaskRecordAdmin(ReadOnlyAdmin):
    list_display = ("task_path", "queue_name", "priority", "enqueued_at", "run_after", "finished_at")
    search_fields = ("task_path",)
