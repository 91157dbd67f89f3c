"""Databases: connections, migrations, SQL files, notifications, shards, the embedded server, namespaces and their grants.

Owns the way to PostgreSQL. Promises: database errors are raised as errors of our tree; no message contains a password; a role of one
namespace can neither read nor act in another, which the database enforces, whatever client is used."""

from headrace.core import map_database_errors as map_database_errors, map_error as map_error
from headrace.db.connections import (
    SERVER_FOLDER as SERVER_FOLDER,
    AsyncConnection as AsyncConnection,
    CancelSafeConnection as CancelSafeConnection,
    Connection as Connection,
    Shards as Shards,
    Target as Target,
    configured_targets as configured_targets,
    connect as connect,
    connect_arrow as connect_arrow,
    connect_async as connect_async,
    connection_string as connection_string,
    data_folder as data_folder,
    embedded_server as embedded_server,
    map_connection_errors as map_connection_errors,
    parse_targets as parse_targets,
    to_url as to_url,
)
from headrace.db.exchanges import (
    Command as Command,
    Exchange as Exchange,
    Parameter as Parameter,
    Result as Result,
    exchange as exchange,
    fetch_alone as fetch_alone,
    fetch_exchanged as fetch_exchanged,
)
from headrace.db.listener import Listener as Listener
from headrace.db.loops import (
    TRANSIENT_ERRORS as TRANSIENT_ERRORS,
    Loop as Loop,
    LoopFailure as LoopFailure,
    LoopMonitor as LoopMonitor,
    StopSignal as StopSignal,
    Subscription as Subscription,
    Unit as Unit,
    cancel_tasks as cancel_tasks,
    clear_failure as clear_failure,
    connection_lost_error as connection_lost_error,
    error_line as error_line,
    is_transient as is_transient,
    is_unreachable as is_unreachable,
    record_failure as record_failure,
    run_to_end as run_to_end,
)
from headrace.db.migrations import (
    MigrationStep as MigrationStep,
    migrate as migrate,
    migration_script as migration_script,
    pending_steps as pending_steps,
    uninstall as uninstall,
)
from headrace.db.namespaces import (
    Grant as Grant,
    Level as Level,
    Namespace as Namespace,
    UnknownNames as UnknownNames,
    alter_namespace as alter_namespace,
    create_namespace as create_namespace,
    drop_namespace as drop_namespace,
    grant_namespace as grant_namespace,
    grant_node as grant_node,
    list_grants as list_grants,
    list_namespaces as list_namespaces,
    revoke_namespace as revoke_namespace,
    revoke_node as revoke_node,
)
from headrace.db.pace import EventRate as EventRate, Pace as Pace
from headrace.db.pooler import is_pooled as is_pooled
from headrace.db.pools import (
    CONNECTIONS as CONNECTIONS,
    CONNECTIONS_MIN as CONNECTIONS_MIN,
    RELAY_CONNECTIONS as RELAY_CONNECTIONS,
    WAIT_S as WAIT_S,
    OwnPool as OwnPool,
    Pool as Pool,
    PoolShare as PoolShare,
    connect_loop as connect_loop,
    create_loop_pool as create_loop_pool,
    create_pool as create_pool,
    divide_connections as divide_connections,
)
from headrace.db.requirements import (
    RELEASE as RELEASE,
    SCHEMA_RELEASE as SCHEMA_RELEASE,
    check_node_database as check_node_database,
    check_node_release as check_node_release,
    require_sessions as require_sessions,
)
from headrace.db.rows import (
    fetch_rows as fetch_rows,
    fetch_value as fetch_value,
    fetch_value_async as fetch_value_async,
    parse_interval as parse_interval,
    parse_time as parse_time,
)
from headrace.db.server import Server as Server, create_database as create_database, free_port as free_port
from headrace.db.sql_files import query as query, schema_checksum as schema_checksum
from headrace.db.views import (
    AsyncView as AsyncView,
    SyncView as SyncView,
    View as View,
    cancel_asyncpg as cancel_asyncpg,
    create_view as create_view,
    enter_transaction as enter_transaction,
    leave_transaction as leave_transaction,
    set_adapters as set_adapters,
)
