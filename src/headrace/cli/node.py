"""`headrace node`: runs an application's consumers and handlers, the sequencer and the rules; lists nodes."""

from __future__ import annotations

import asyncio
import importlib
import logging
import signal
import sys
from typing import Annotated

import structlog
import typer

from headrace.actions import LEASE_S, WORKERS
from headrace.cli.session import Session, command
from headrace.core import DatabaseUnavailable, Invalid, NotFound, NotMigrated
from headrace.db import Target, connect, pending_steps
from headrace.node import Headrace, Node, NodeState, Work, list_nodes, run_loop

group = typer.Typer(help="Nodes: processes that sequence the outbox, evaluate rules, run consumers and handlers.")

logger = logging.getLogger("headrace.node")


@command(group, "list")
def list_(
    session: Session,
    stopped: Annotated[bool, typer.Option("--stopped", help="Also those that ended in order.")] = False,
) -> None:
    """List nodes: alive, or lost (no heartbeat for 90 seconds), and the actions they handle."""
    found = session.found(lambda conn: list_nodes(conn, stopped=stopped, namespace=session.namespace))
    columns = ["node", "state", "version", "started at", "heartbeat at", "handles", "description", "id"]
    session.show(columns, found, _row)


def _row(one: NodeState) -> list[object]:
    times = [one.started_at, one.heartbeat_at]
    return [one.name, one.state, one.version, *times, ", ".join(one.handlers) or None, one.description, one.node_id]


@command(group, "run", common=("dsn", "json"))
def run(
    session: Session,
    app: Annotated[
        str | None,
        typer.Argument(
            metavar="MODULE:APP", help="Where the Headrace object is.", show_default="none: no consumers and handlers"
        ),
    ] = None,
    sequencer: Annotated[
        bool,
        typer.Option(
            "--sequencer/--no-sequencer",
            help="Also sequence, run rules, correlators and schedules, and maintain; needs the owner's rights.",
        ),
    ] = True,
    grace_s: Annotated[float, typer.Option(min=0, help="How long running handlers may take to end.")] = 30,
    lease_s: Annotated[
        float, typer.Option(min=1, help="How long an action stays with a node that has died; a running handler keeps its own.")
    ] = LEASE_S,
    workers: Annotated[int, typer.Option(min=1, help="How many batches of actions it handles side by side.")] = WORKERS,
    log_json: Annotated[bool, typer.Option("--log-json", help="Log JSON lines.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log more.")] = False,
) -> None:
    """Run a node until SIGTERM or Ctrl-C; handlers that run are finished first.

    Any number of nodes may run the same application. Without an application it sequences, runs rules, correlators and
    schedules, and maintains.

    Examples: headrace node run · headrace node run shop.events:app --log-json
    """
    log_to_stderr(as_json=log_json or session.json, level=logging.DEBUG if verbose else logging.INFO)
    found = load(app) if app else Headrace()
    for target in session.targets:
        _refuse_unmigrated(target)
    work = Work(lease_s=lease_s, workers=workers)
    run_loop(_run(found, session.targets, sequencer=sequencer, grace_s=grace_s, work=work))


async def _run(app: Headrace, targets: list[Target], *, sequencer: bool, grace_s: float, work: Work) -> None:
    node = Node(app, targets, sequencer=sequencer, grace_s=grace_s, work=work)
    loop = asyncio.get_running_loop()

    def stop(name: str) -> None:
        logger.info("%s: finishing what runs; once more ends it at once", name)
        node.stop()
        for one in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(one)

    for one in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(one, stop, one.name)
    consumers = ", ".join(f"{consumer.topic}/{consumer.name}" for consumer in app.consumers) or "none"
    handlers = ", ".join(handling.action for handling in app.handlings) or "none"
    places, state = ", ".join(map(str, targets)), "on" if sequencer else "off"
    logger.info("node runs on %s; sequencer and rules %s; consumers: %s; handlers: %s", places, state, consumers, handlers)
    await node.run()
    counts = (node.sequenced, node.handled, node.fired, node.actions)
    logger.info("node ended; %d events sequenced, %d handled, rules fired %d times, %d actions handled", *counts)


def load(address: str) -> Headrace:
    """The application at `module:name`, looked for from the current folder on as well."""
    module_name, colon, name = address.partition(":")
    if not colon or not module_name or not name:
        raise Invalid(f"{address!r} does not name an application; write module:name, such as shop.events:app")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise  # The module is there; something it imports is not.
        raise NotFound(f"there is no module {module_name!r}; run from its folder, or set PYTHONPATH") from None
    found = getattr(module, name, None)
    if found is None:
        raise NotFound(f"module {module_name!r} has no {name!r}")
    if not isinstance(found, Headrace):
        raise Invalid(f"{address} is a {type(found).__name__}, not a Headrace application")
    return found


def _refuse_unmigrated(target: Target) -> None:
    try:
        with connect(target) as conn:
            missing = pending_steps(conn)
    except DatabaseUnavailable as error:
        # A shard that is down must not keep the others from running; the node goes on trying.
        logger.warning("%s", error)
        return
    if any(not step.repeatable for step in missing):
        raise NotMigrated(f"database {target} lacks {len(missing)} steps of the schema; run: headrace migrate")
    if missing:
        # A newer version may have migrated already while nodes of this one still come and go: that must not stop them.
        logger.warning("database %s has other functions than this version; with the newer one, run: headrace migrate", target)


def log_to_stderr(*, as_json: bool, level: int) -> None:
    """Structured logs of the whole process: the library's and the application's own."""
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    last: structlog.typing.Processor = (
        structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    final = [structlog.stdlib.ProcessorFormatter.remove_processors_meta]
    if as_json:
        final.append(structlog.processors.format_exc_info)  # type: ignore[arg-type]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=[*final, last]))
    logging.basicConfig(level=level, handlers=[handler], force=True)
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
    )
