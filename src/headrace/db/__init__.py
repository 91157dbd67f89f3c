"""Databases: connections, migrations, SQL files, errors by SQLSTATE, the embedded server.

Owns the way to PostgreSQL. Promises: errors of the database come out as errors of our tree; passwords never come out."""

from headrace.db.connections import (
    AsyncConnection,
    Connection,
    Pool,
    Target,
    address,
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
from headrace.db.pgmq_install import install_pgmq
from headrace.db.retry import TRANSIENT, as_lost, end_loops, is_transient, retry_until_connected
from headrace.db.server import Server, embedded_bin, free_port
from headrace.db.shards import Shards
from headrace.db.sql_files import package_sql, query
from headrace.db.sqlstate import map_database_errors, map_error
from headrace.db.times import parse_interval, parse_time

__all__ = [
    "TRANSIENT",
    "AsyncConnection",
    "Connection",
    "Listener",
    "MigrationStep",
    "Pool",
    "Server",
    "Shards",
    "Subscription",
    "Target",
    "address",
    "as_lost",
    "configured_targets",
    "connect",
    "connect_arrow",
    "connect_async",
    "create_pool",
    "data_folder",
    "embedded_bin",
    "embedded_server",
    "end_loops",
    "free_port",
    "install_pgmq",
    "is_transient",
    "map_connection_errors",
    "map_database_errors",
    "map_error",
    "migrate",
    "migration_script",
    "package_sql",
    "parse_interval",
    "parse_targets",
    "parse_time",
    "pending_steps",
    "query",
    "retry_until_connected",
]
