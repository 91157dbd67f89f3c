"""Creates the topic of the orders, and the names that rules use."""

from django.db import migrations

from headrace import create_topic
from headrace.definitions import register_action, register_event_type, unregister_action, unregister_event_type
from headrace.integrations.django.database import psycopg_connection
from headrace.log.topics import drop_topic


def create(_apps: object, schema_editor: object) -> None:
    conn = psycopg_connection(schema_editor.connection)
    create_topic(conn, "orders", partitions=4)
    register_event_type(conn, "order.placed", description="A customer has ordered.")
    register_action(conn, "review-order", description="Have a person look at the order.")


def drop(_apps: object, schema_editor: object) -> None:
    conn = psycopg_connection(schema_editor.connection)
    unregister_action(conn, "review-order")
    unregister_event_type(conn, "order.placed")
    drop_topic(conn, "orders")


class Migration(migrations.Migration):
    dependencies = [("shop", "0001_initial"), ("headrace", "0001_initial")]
    operations = [migrations.RunPython(create, drop)]
