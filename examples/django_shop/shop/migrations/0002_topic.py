"""Creates the topic of the orders."""

from django.db import migrations

from headrace import create_topic
from headrace.integrations.django.database import psycopg_connection
from headrace.log import drop_topic


def create(_apps: object, schema_editor: object) -> None:
    create_topic(psycopg_connection(schema_editor.connection), "orders", partitions=4)


def drop(_apps: object, schema_editor: object) -> None:
    drop_topic(psycopg_connection(schema_editor.connection), "orders")


class Migration(migrations.Migration):
    dependencies = [("shop", "0001_initial"), ("headrace", "0001_initial")]
    operations = [migrations.RunPython(create, drop)]
