"""Installs headrace's schema, and describes its views and the table of tasks to Django."""

from typing import Any

from django.apps import apps
from django.db import migrations, models
from django.db.migrations.state import ModelState

from headrace.integrations.django.apps import install, remove


def describe_view(model: type[models.Model]) -> Any:
    """A view as its model has it today. Its columns belong to headrace's own migrations, so Django's need no history of them."""
    state = ModelState.from_model(model)
    return migrations.CreateModel(state.name, list(state.fields.items()), state.options)


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.RunPython(install, remove),
        *(describe_view(model) for model in apps.get_app_config("headrace").get_models() if not model._meta.managed),
        migrations.CreateModel(
            name="TaskRecord",
            fields=[
                ("id", models.UUIDField(primary_key=True, serialize=False)),
                ("task_path", models.TextField()),
                ("args", models.JSONField()),
                ("kwargs", models.JSONField()),
                ("backend", models.TextField()),
                ("queue_name", models.TextField()),
                ("priority", models.IntegerField()),
                ("run_after", models.DateTimeField(null=True)),
                ("enqueued_at", models.DateTimeField(db_index=True)),
                ("finished_at", models.DateTimeField(null=True)),
                ("return_value", models.JSONField(null=True)),
            ],
            options={
                "verbose_name": "task",
                "db_table": "headrace_task",
                "ordering": ("-enqueued_at",),
            },
        ),
    ]
