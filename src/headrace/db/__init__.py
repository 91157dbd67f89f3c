"""Databases: connections, migrations, SQL files, errors by SQLSTATE, the embedded server.

Owns the way to PostgreSQL. Promises: errors of the database come out as errors of our tree; passwords never come out."""

from headrace.db._connect import (
    AsyncConnection,
    Connection,
    Pool,
    Target,
    address,
    connect,
    connect_arrow,
    connect_async,
    data_folder,
    embedded_server,
    parse_targets,
    pool,
    reached,
    targets,
)
from headrace.db._listen import Listener, Subscription
from headrace.db._migrate import Step, desired_schema, migrate, migration_script, pending, steps
from headrace.db._moment import moment, span
from headrace.db._persist import TRANSIENT, as_lost, end_loops, persist, transient
from headrace.db._queue import install_pgmq
from headrace.db._server import Server, embedded_bin, free_port
from headrace.db._shards import Shards
from headrace.db._sql import query
from headrace.db._sqlstate import translate, translated

__all__ = [
    "TRANSIENT",
    "AsyncConnection",
    "Connection",
    "Listener",
    "Pool",
    "Server",
    "Shards",
    "Step",
    "Subscription",
    "Target",
    "address",
    "as_lost",
    "connect",
    "connect_arrow",
    "connect_async",
    "data_folder",
    "desired_schema",
    "embedded_bin",
    "embedded_server",
    "end_loops",
    "free_port",
    "install_pgmq",
    "migrate",
    "migration_script",
    "moment",
    "parse_targets",
    "pending",
    "persist",
    "pool",
    "query",
    "reached",
    "span",
    "steps",
    "targets",
    "transient",
    "translate",
    "translated",
]
