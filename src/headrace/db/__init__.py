"""Databases: connections, migrations, SQL files, notifications, shards, the embedded server.

Owns the way to PostgreSQL. Promises: database errors are raised as errors of our tree; no message contains a password."""

from headrace.core import map_database_errors, map_error
from headrace.db.budget import CONNECTIONS, CONNECTIONS_MIN, RELAY_CONNECTIONS, WAIT_S, PoolShare, divide_connections
from headrace.db.connections import (
    SERVER_FOLDER,
    AsyncConnection,
    Connection,
    OwnPool,
    Pool,
    Target,
    configured_targets,
    connect,
    connect_arrow,
    connect_async,
    connect_loop,
    connection_string,
    create_loop_pool,
    create_pool,
    data_folder,
    embedded_server,
    map_connection_errors,
    parse_targets,
)
from headrace.db.dsn import to_url
from headrace.db.exchanges import Command, Exchange, Parameter, exchange, fetch_exchanged
from headrace.db.listener import Listener, Subscription
from headrace.db.migrations import MigrationStep, migrate, migration_script, pending_steps
from headrace.db.pace import IdlePace, Pace
from headrace.db.pooler import is_pooled
from headrace.db.releases import RELEASE, SCHEMA_RELEASE, check_node_release
from headrace.db.requirements import check_node_database, require_sessions
from headrace.db.retry import (
    TRANSIENT_ERRORS,
    LoopFailure,
    LoopMonitor,
    LoopSteps,
    Unit,
    cancel_tasks,
    clear_failure,
    connection_lost_error,
    error_line,
    is_transient,
    is_unreachable,
    record_failure,
    retry_until_connected,
    run_to_end,
)
from headrace.db.rows import fetch_rows, fetch_value, fetch_value_async
from headrace.db.server import Server, free_port
from headrace.db.shards import Shards
from headrace.db.sql_files import query, schema_checksum
from headrace.db.times import parse_interval, parse_time
from headrace.db.uninstall import uninstall

__all__ = [
    "CONNECTIONS",
    "CONNECTIONS_MIN",
    "RELAY_CONNECTIONS",
    "RELEASE",
    "SCHEMA_RELEASE",
    "SERVER_FOLDER",
    "TRANSIENT_ERRORS",
    "WAIT_S",
    "AsyncConnection",
    "Command",
    "Connection",
    "Exchange",
    "IdlePace",
    "Listener",
    "LoopFailure",
    "LoopMonitor",
    "LoopSteps",
    "MigrationStep",
    "OwnPool",
    "Pace",
    "Parameter",
    "Pool",
    "PoolShare",
    "Server",
    "Shards",
    "Subscription",
    "Target",
    "Unit",
    "cancel_tasks",
    "check_node_database",
    "check_node_release",
    "clear_failure",
    "configured_targets",
    "connect",
    "connect_arrow",
    "connect_async",
    "connect_loop",
    "connection_lost_error",
    "connection_string",
    "create_loop_pool",
    "create_pool",
    "data_folder",
    "divide_connections",
    "embedded_server",
    "error_line",
    "exchange",
    "fetch_exchanged",
    "fetch_rows",
    "fetch_value",
    "fetch_value_async",
    "free_port",
    "is_pooled",
    "is_transient",
    "is_unreachable",
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
    "record_failure",
    "require_sessions",
    "retry_until_connected",
    "run_to_end",
    "schema_checksum",
    "to_url",
    "uninstall",
]
