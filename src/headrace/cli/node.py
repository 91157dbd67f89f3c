"""`headrace node`: runs the handlers and consumers of an application, the sequencer and the rules; lists nodes."""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any

import msgspec
import structlog
from rich.table import Table
from typer import Argument, BadParameter, Option, Typer

from headrace.actions import LEASE_S, WORKERS
from headrace.cli.output import Column, format_span, redact_log_entry, safe_log_entry, table
from headrace.cli.session import Session, command, facts_table
from headrace.core import Address, Invalid, NotFound, UnknownNode
from headrace.db import CONNECTIONS, CONNECTIONS_MIN, RELAY_CONNECTIONS, Target, cancel_tasks, grant_node, revoke_node
from headrace.node import (
    NO_HANDLER_GRACE_S,
    Headrace,
    HttpSettings,
    Identity,
    Node,
    NodeState,
    WorkerSettings,
    forget_nodes,
    list_nodes,
    require_migrated,
    run_loop,
)
from headrace.web.http import IngestSettings

group = Typer(help="Nodes: processes that sequence events, evaluate rules, and run consumers and handlers.")

NodeName = Annotated[str, Argument(metavar="NODE", help="Name or id of the node.", show_default=False)]
Role = Annotated[str, Argument(metavar="ROLE", help="Database role.", show_default=False)]

logger = logging.getLogger("headrace.node")


@command(group, "list")
def list_(
    session: Session,
    stopped: Annotated[bool, Option("--stopped", help="Include nodes that have stopped.")] = False,
) -> None:
    """List nodes with what they handle, and how many events and actions per minute.

    A node is alive, or lost when it has sent no heartbeat for 90 seconds; the time is that of its last heartbeat. Lost nodes are forgotten after a day. `node show` tells
    more of one node.
    """
    nodes = session.collect(session.bind(list_nodes, stopped=stopped))
    consumers: Column = ("consumers", lambda node: "\n".join(map(_consumer_name, _reports(node, "consumers"))) or None)
    handles: Column = ("handles", lambda node: "\n".join(node.handlers) or None)
    events: Column = ("events\nper min", lambda node: sum(one["events_per_min"] for one in _reports(node, "consumers")))
    done: Column = ("actions\nper min", lambda node: sum(one["per_min"] for one in _reports(node, "actions")))
    session.show([("node", "name"), ("state", _state), consumers, handles, events, done], nodes)


def _consumer_name(report: Mapping[str, Any]) -> str:
    return f"{report['topic']}/{report['consumer']}"


def _reports(node: NodeState, what: str) -> list[Any]:
    """What a node has reported of its consumers or actions."""
    reports = node.report.get(what)
    return list(reports) if isinstance(reports, list) else []


def _state(node: NodeState) -> str:
    """The state, and how long ago the last heartbeat was."""
    return f"{node.state}\n{format_span((datetime.now(UTC) - node.heartbeat_at).total_seconds())} ago"


@command(group, "show")
def show(session: Session, node: NodeName) -> None:
    """Show one node: the consumers it runs with the partitions it handled, and its rates, as of its last heartbeat.

    A partition is held only while a batch is handled, so several nodes may have handled the same one in turn.
    """
    nodes = [
        (target, state)
        for target, state in session.collect(session.bind(list_nodes, stopped=True))
        if node in (state.name, str(state.node_id))
    ]
    if not nodes:
        raise UnknownNode(f"there is no node {node!r}; see: headrace node list --stopped")
    tables = [part for target, state in nodes for part in _node_tables(target, state)]
    session.print([{"shard": target.name} | msgspec.to_builtins(state) for target, state in nodes], *tables)


def _node_tables(target: Target, node: NodeState) -> Iterator[Table]:
    fields = ("state", "description", "version", "started_at", "heartbeat_at", "stopped_at", "sequencer", "metadata", "node_id")
    yield facts_table(f"node {node.name}", target, {field: getattr(node, field) for field in fields})
    if consumers := _reports(node, "consumers"):
        partitions: Column = ("partitions", lambda one: _partitions(one["partitions"]))
        yield table([("runs consumer", "consumer"), "topic", partitions, ("events/min", "events_per_min")], consumers)
    rates = dict.fromkeys(node.handlers, 0.0) | {one["action"]: one["per_min"] for one in _reports(node, "actions")}
    if rates:
        yield table([("handles action", ""), ("per min", "")], sorted(rates.items()))


def _partitions(partitions: list[int]) -> str | None:
    return "all" if partitions == [-1] else ", ".join(map(str, partitions)) or None


@command(group, "forget")
def forget(
    session: Session,
    node: Annotated[str | None, Argument(metavar="NODE", help="Name or id of the node.", show_default=False)] = None,
    lost: Annotated[bool, Option("--lost", help="All lost nodes.")] = False,
) -> None:
    """Forget a node that is lost or has stopped, or all lost ones. Without it, they are forgotten after a day.

    A forgotten node that comes back registers again.

    Examples: headrace node forget web-3 · headrace node forget --lost
    """
    if (node is None) != lost:
        raise BadParameter("name a node, or choose --lost", param_hint="NODE")
    count = 0
    for _, conn in session.shards():
        # It may be registered on another shard only.
        with suppress(UnknownNode):
            count += forget_nodes(conn, node, namespace=session.namespace)
    if node is not None and not count:
        raise UnknownNode(f"there is no node {node!r}; see: headrace node list --stopped")
    session.done(f"{count} nodes forgotten", {"forgotten": count})


HttpAddress = Annotated[
    str | None,
    Option(
        "--http",
        metavar="HOST:PORT",
        help="Serve /metrics for Prometheus, /healthz and /readyz, for example on 127.0.0.1:9464.",
        show_default="off",
    ),
]
ReadyLag = Annotated[
    float | None,
    Option(
        "--ready-lag-s",
        min=0,
        help="With --http: not ready while a consumer of the application is further behind than this.",
        show_default="any lag",
    ),
]
IngestAddress = Annotated[
    str | None,
    Option(
        "--ingest",
        metavar="HOST:PORT",
        help="Take events and webhooks by HTTP, and let readers read, for example on 127.0.0.1:8640; see docs/http.md.",
        show_default="off",
    ),
]


@command(group, "run", common=("dsn", "json"))
def run(
    session: Session,
    app: Annotated[
        str | None, Argument(metavar="MODULE:APP", help="The Headrace object.", show_default="no consumers and handlers")
    ] = None,
    sequencer: Annotated[
        bool,
        Option(
            "--sequencer/--no-sequencer",
            help="Also sequence events, run rules, correlators and schedules, and do maintenance; needs the owner's rights.",
        ),
    ] = True,
    grace_s: Annotated[float, Option(min=0, help="Seconds that running handlers have to finish.")] = 30,
    lease_s: Annotated[
        float, Option(min=1, help="Seconds until the actions of a dead node are retried; running handlers renew it.")
    ] = LEASE_S,
    workers: Annotated[int, Option(min=1, help="Batches of actions handled in parallel.")] = WORKERS,
    connections: Annotated[
        int, Option(min=CONNECTIONS_MIN, help="Most connections to each database; slow handlers need more.")
    ] = CONNECTIONS,
    relay_connections: Annotated[
        int, Option(min=0, help="Most connections that deliveries of relays hold beside these; 0: run no relays.")
    ] = RELAY_CONNECTIONS,
    no_handler_grace_s: Annotated[
        float,
        Option(
            "--no-handler-grace-s",
            min=0,
            help="Seconds until an action that no node handles becomes a dead letter; at least as long as a deployment takes.",
        ),
    ] = NO_HANDLER_GRACE_S,
    http: HttpAddress = None,
    ready_lag_s: ReadyLag = None,
    ingest: IngestAddress = None,
    log_json: Annotated[bool, Option("--log-json", help="Log JSON lines.")] = False,
    verbose: Annotated[bool, Option("--verbose", "-v", help="Log debug messages.")] = False,
) -> None:
    """Run a node until SIGTERM or Ctrl-C; running handlers finish first.

    Any number of nodes may run the same application. Without an application the node only sequences events, runs rules,
    correlators and schedules, and does maintenance.

    Examples: headrace node run · headrace node run shop.events:app --log-json
    """
    identity = Identity()
    log_to_stderr(as_json=log_json or session.json, level=logging.DEBUG if verbose else logging.INFO, node=identity.name)
    application = load_application(app) if app else Headrace()
    for target in session.targets:
        require_migrated(target)
    work = WorkerSettings(lease_s=lease_s, workers=workers, no_handler_grace_s=no_handler_grace_s)
    settings = HttpSettings.parse(http, ready_lag_s=ready_lag_s) if http else None
    ingest_settings = IngestSettings(address=Address.parse(ingest)) if ingest else None

    def create_node() -> Node:
        return Node(
            application,
            session.targets,
            sequencer=sequencer,
            grace_s=grace_s,
            work=work,
            identity=identity,
            connections=connections,
            relay_connections=relay_connections,
            http=settings,
            ingest=ingest_settings,
        )

    run_loop(_run(application, session.targets, create_node, sequencer=sequencer))


async def _run(app: Headrace, targets: list[Target], create_node: Callable[[], Node], *, sequencer: bool) -> None:
    node = create_node()  # A node needs the running event loop.
    loop = asyncio.get_running_loop()
    signals = (signal.SIGTERM, signal.SIGINT)

    def stop(name: str) -> None:
        logger.info("%s: finishing running handlers; send it again to exit at once", name)
        node.stop()
        for number in signals:
            loop.remove_signal_handler(number)

    for number in signals:
        loop.add_signal_handler(number, stop, number.name)
    consumers = ", ".join(f"{consumer.topic}/{consumer.name}" for consumer in app.consumers) or "none"
    handlers = ", ".join(app.action_handlers) or "none"
    places, state = ", ".join(map(str, targets)), "on" if sequencer else "off"

    async def announce() -> None:
        await node.wait_started()
        logger.info("node runs on %s; sequencer and rules %s; consumers: %s; handlers: %s", places, state, consumers, handlers)

    announcement = asyncio.create_task(announce(), name="announcement")
    try:
        await node.run()
    finally:
        await cancel_tasks(announcement)
    counts = (node.sequenced, node.handled, node.fired, node.actions)
    logger.info("node stopped; %d events sequenced, %d handled, rules fired %d times, %d actions handled", *counts)
    if node.is_overdue:
        # A thread of a handler that runs on would keep the process alive; its transaction is rolled back already.
        logging.shutdown()
        os._exit(1)


@command(group, "grant", common=("dsn", "json"))
def grant(session: Session, role: Role) -> None:
    """Allow a role to run the loops of nodes, for every namespace, on every shard. It need not be superuser or owner.

    Example: headrace node grant headrace_node
    """
    session.on_every_shard(lambda conn: grant_node(conn, role))
    session.done(f"role {role} may run nodes", {"role": role, "node": True})


@command(group, "revoke", common=("dsn", "json"))
def revoke(session: Session, role: Role) -> None:
    """Take the right to run the loops of nodes from a role, on every shard."""
    session.on_every_shard(lambda conn: revoke_node(conn, role))
    session.done(f"role {role} may no longer run nodes", {"role": role, "node": False})


def load_application(address: str) -> Headrace:
    """The application at `module:name`; the current folder is searched, too."""
    module_name, colon, name = address.partition(":")
    if not colon or not module_name or not name:
        raise Invalid(f"{address!r} is not the address of an application; write module:name, such as shop.events:app")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise  # The module exists, but something it imports does not.
        raise NotFound(f"there is no module {module_name!r}; run headrace in its folder, or set PYTHONPATH") from None
    application = getattr(module, name, None)
    if application is None:
        raise NotFound(f"module {module_name!r} has no {name!r}")
    if not isinstance(application, Headrace):
        raise Invalid(f"{address} is a {type(application).__name__}, not a Headrace application")
    return application


def log_to_stderr(*, as_json: bool, level: int, node: str | None = None) -> None:
    """Sends the logs of the whole process, the application's too, to standard error in one format.

    JSON has the fields of an entry on their own, also the node's name; for people they are in the message."""
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    # They include the application's own extra fields.
    fields: list[structlog.typing.Processor] = [structlog.stdlib.ExtraAdder()] if as_json else []
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    # Tracebacks as plain text: the renderer's own would show local variables, and with them payloads and passwords.
    final: list[Any] = [
        structlog.stdlib.ProcessorFormatter.remove_processors_meta,
        structlog.processors.format_exc_info,
        *([partial(_name_fields, node)] if as_json else []),
        redact_log_entry,
        # JSON escapes by itself.
        *([] if as_json else [safe_log_entry]),
    ]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=[*shared, *fields], processors=[*final, renderer]))
    logging.basicConfig(level=level, handlers=[handler], force=True)
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
    )


def _name_fields(node: str | None, _logger: object, _method: str, entry: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A processor of structlog: the node's name, and the traceback under the name that the tables have."""
    if node is not None:
        entry.setdefault("node", node)
    if "exception" in entry:
        entry["traceback"] = entry.pop("exception")
    return entry
