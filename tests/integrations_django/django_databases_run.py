"""A project with SQLite as its default database and headrace in another one. Prints as JSON what happens."""

from __future__ import annotations

import json
import sys

import django
from django.conf import settings

from headrace.db import Target, connect, pending_steps
from headrace.db.connections import read_dsn

ROLE = "shop \\ owner"
parts = read_dsn(sys.argv[1], "main")
server = {"NAME": parts["dbname"], "USER": parts["user"], "HOST": parts["host"], "PORT": parts.get("port", "")}
settings.configure(
    INSTALLED_APPS=["headrace.integrations.django"],
    DATABASES={
        "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"},
        "events": {"ENGINE": "django.db.backends.postgresql", **server},
        "as_owner": {
            "ENGINE": "django.db.backends.postgresql",
            **server,
            "PASSWORD": "it's % a = secret",
            "OPTIONS": {"assume_role": ROLE, "options": "-c work_mem=5MB", "pool": False},
        },
    },
    HEADRACE_DATABASE="events",
    USE_TZ=True,
)
django.setup()

from django.core.management import call_command  # noqa: E402
from django.test import override_settings  # noqa: E402

from headrace.core import Invalid  # noqa: E402
from headrace.integrations.django.database import database_dsn  # noqa: E402
from headrace.integrations.django.models import Topic  # noqa: E402

answers: dict[str, object] = {}
call_command("migrate", database="default", verbosity=0)
call_command("migrate", database="events", verbosity=0)
with connect(Target("events", database_dsn("events"))) as conn:
    answers["pending"] = len(pending_steps(conn))
    conn.execute("select headrace.create_topic('orders')")
    conn.execute(f'drop role if exists "{ROLE}"')
    conn.execute(f'create role "{ROLE}"')
    with connect(Target("owner", database_dsn("as_owner"))) as as_owner:
        answers["role"] = as_owner.execute("select current_user::text = %s, current_setting('work_mem')", (ROLE,)).fetchone()
    conn.execute(f'drop role "{ROLE}"')
answers["topics"] = list(Topic.objects.using("events").values_list("topic", flat=True))
answers["password"] = read_dsn(database_dsn("as_owner"), "as_owner")["password"]
with override_settings(HEADRACE_DATABASE="default"):
    try:
        call_command("migrate", "headrace", "zero", database="default", verbosity=0)
        call_command("migrate", database="default", verbosity=0)
    except Invalid as error:
        answers["sqlite"] = str(error)
json.dump(answers, sys.stdout)
