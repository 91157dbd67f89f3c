"""The app's configuration."""

from __future__ import annotations

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class HeadraceConfig(AppConfig):
    """The app `headrace`. Its models are views of schema headrace and the table of tasks."""

    name = "headrace.integrations.django"
    label = "headrace"
    verbose_name = "headrace"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from headrace.integrations.django.schema import update_schema

        # Once per `migrate`, and not once per app.
        post_migrate.connect(update_schema, sender=self, dispatch_uid="headrace.update_schema")
