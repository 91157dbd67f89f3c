"""Databases: connections, migrations, SQL files, notifications, shards, the embedded server.

Owns the way to PostgreSQL. Promises: database errors are raised as errors of our tree; no message contains a password."""

from headrace.core import map_database_errors, map_error
from headrace.db.connections import (
    AsyncConnection,
    Connection,
    Pool,
    Target,
    configured_targets,
    connect,
    connect_arrow,
    connect_async,
    create_pool,
    data_folder,
    embedded_server,
    map_connection_errors,
    parse_targets,
)
from headrace.db.listener import Listener, Subscription
from headrace.db.migrations import MigrationStep, migrate, migration_script, pending_steps
from headrace.db.pooler import is_pooled
from headrace.db.requirements import check_node_database, require_sessions
from headrace.db.retry import TRANSIENT_ERRORS, cancel_tasks, connection_lost_error, is_transient, retry_until_connected
from headrace.db.rows import fetch_rows, fetch_value, fetch_value_async
from headrace.db.server import Server
from headrace.db.shards import Shards
from headrace.db.sql_files import query
from headrace.db.times import parse_interval, parse_time

__all__ = [
    "TRANSIENT_ERRORS",
    "AsyncConnection",
    "Connection",
    "Listener",
    "MigrationStep",
    "Pool",
    "Server",
    "Shards",
    "Subscription",
    "Target",
    "cancel_tasks",
    "check_node_database",
    "configured_targets",
    "connect",
    "connect_arrow",
    "connect_async",
    "connection_lost_error",
    "create_pool",
    "data_folder",
    "embedded_server",
    "fetch_rows",
    "fetch_value",
    "fetch_value_async",
    "is_pooled",
    "is_transient",
    "map_connection_errors",
    "map_database_errors",
    "map_error",
    "migrate",
    "migration_script",
    "parse_interval",
    "parse_targets",
    "parse_time",
    "pending_steps",
    "query",
    "require_sessions",
    "retry_until_connected",
]
