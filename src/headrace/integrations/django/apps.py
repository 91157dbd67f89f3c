"""The app's configuration, and headrace's schema as part of Django's migrations.

The first migration installs the schema, so that migrations of other apps can depend on it. Later releases change it without a new Django
migration: after every `manage.py migrate`, what this release of headrace has and the database lacks is applied."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.apps import AppConfig
from django.db import connections
from django.db.models.signals import post_migrate

from headrace.db import RELEASE, migrate, pending_steps, uninstall
from headrace.integrations.django.database import database_alias, psycopg_connection

if TYPE_CHECKING:
    from django.apps.registry import Apps
    from django.db.backends.base.schema import BaseDatabaseSchemaEditor


class HeadraceConfig(AppConfig):
    """The app `headrace`. Its models are views of schema headrace and the table of tasks."""

    name = "headrace.integrations.django"
    label = "headrace"
    verbose_name = "headrace"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        # Once per `migrate`, and not once per app.
        post_migrate.connect(update_schema, sender=self, dispatch_uid="headrace.update_schema")


def install(_apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Forward step of the first migration, in its transaction. Does nothing on databases other than HEADRACE_DATABASE."""
    if schema_editor.connection.alias == database_alias():
        migrate(psycopg_connection(schema_editor.connection))


def remove(_apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Backward step of the first migration. Raises Conflict while there are topics, waiting actions or dead letters."""
    if schema_editor.connection.alias == database_alias():
        uninstall(psycopg_connection(schema_editor.connection))


def update_schema(*, using: str, verbosity: int = 1, stdout: Any = None, **_options: object) -> None:
    """After `manage.py migrate`: applies what an upgrade of headrace has added. Installs nothing where headrace is not installed."""
    if using != database_alias():
        return
    conn = psycopg_connection(connections[using])
    if conn.execute("select to_regclass('headrace_internal.migration')").fetchone() == (None,) or not pending_steps(conn):
        return
    steps = migrate(conn)
    if verbosity and stdout is not None:
        stdout.write(f"  headrace: migrated, {len(steps)} step{'s' if len(steps) > 1 else ''}, release {RELEASE}\n")
