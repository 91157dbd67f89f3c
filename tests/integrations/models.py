"""One table, as SQLAlchemy and Django see it: the effects of handlers."""

from __future__ import annotations

from typing import Any

from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

CREATE = """create table effect (id bigint generated always as identity primary key, n int not null, writer text,
    written_at timestamptz default now(), constraint effect_n_is_allowed check (n <> 13))"""


class Base(DeclarativeBase):
    pass


class Effect(Base):
    __tablename__ = "effect"

    id: Mapped[int] = mapped_column(primary_key=True)
    n: Mapped[int]
    writer: Mapped[str | None]


def django_effect(dsn: str) -> Any:
    """Django's model of the table. Django is configured once per process; handlers use the node's connection in any case."""
    import django
    from django.apps import apps
    from django.conf import settings
    from django.db import connections
    from psycopg.conninfo import conninfo_to_dict

    if not settings.configured:
        settings.configure(DATABASES={}, USE_TZ=True)
    if dsn:
        # Other tests of this process may have configured Django before.
        parts = conninfo_to_dict(dsn)
        names = {"NAME": "dbname", "USER": "user", "PASSWORD": "password", "HOST": "host", "PORT": "port"}
        database = {name: str(parts.get(part) or "") for name, part in names.items()}
        connections.settings = connections.configure_settings(
            {"default": {"ENGINE": "django.db.backends.postgresql", **database}}
        )
    if not apps.ready:
        django.setup()
    if "effect" in apps.all_models["shop"]:
        return apps.all_models["shop"]["effect"]
    from django.db import models

    class Effect(models.Model):
        id = models.BigAutoField(primary_key=True)
        n = models.IntegerField()
        writer = models.TextField(null=True)

        class Meta:
            app_label = "shop"
            db_table = "effect"
            managed = False

    return Effect
