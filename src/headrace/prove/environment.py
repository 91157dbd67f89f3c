"""Environment: the database of a run, the proxy in front of it, and its processes. What is started here is ended here."""

from __future__ import annotations

import random
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from headrace.core import Invalid
from headrace.db import Connection, Server, Target, connect, create_database, migrate
from headrace.prove.bugs import plant_in_database, server_settings
from headrace.prove.definitions import create_copying_relay, create_workload
from headrace.prove.evidence import Completed, History, Invoked, SentEvent, now
from headrace.prove.processes import MAIN, ProcessConfig, Processes, shard_name
from headrace.prove.processes.node import NAMES
from headrace.prove.proxy import Proxy
from headrace.prove.relay_targets import RelayTarget, running_targets
from headrace.relays import create_relay

DATABASE = "headrace_prove"
MAKER = "headrace prove"
SETTINGS = {"max_connections": "90", "shared_buffers": "128MB", "max_wal_size": "1GB"}
"""Of the checker's own server. Durability stays at PostgreSQL's defaults."""
TMPFS_BYTES = 700_000_000
SMALL_DISK_SETTINGS = {"max_wal_size": "128MB", "min_wal_size": "32MB"}


LEAD_S = 6.0
"""Quiet time before the first fault, to measure the usual rate."""
PAUSE_MIN_S = 3.0


@dataclass(frozen=True, kw_only=True)
class Options:
    """What to run."""

    minutes: float = 1.0
    faults: Sequence[str] | None = None
    """None: all that are possible on this server. Empty: none."""
    seed: int = 1
    dsn: str | None = None
    producers: int = 2
    nodes: int = 2
    rate: float = 100.0
    """Events per second of each producer."""
    margin: float = 0.0
    """How far the rate may stay below 95 % of the rate before a fault, for a machine with other users."""
    spark: bool = False
    """A pipeline runs the rules and correlators of one topic on Spark. Needs Java and about a gigabyte of memory."""
    relays: Sequence[str] = ()
    """Kinds of relays, each to a server of the checker's own; see RELAY_KINDS."""
    bugs: Sequence[str] = ()
    """Seeded bugs, to show that the checks catch them."""
    failpoints: Sequence[str] = ()
    """Where the fault `failpoint` may kill a node; empty: anywhere."""
    keep: Path | None = None
    """Folder that keeps histories and logs; None: they are deleted."""
    stalled_s: float = 60.0
    """How long to wait at the end while no open work is done."""
    lead_s: float = LEAD_S
    """Quiet time before the first fault."""
    pause_min_s: float = PAUSE_MIN_S
    """Least time from one fault to the next."""
    fault_scale: float = 1.0
    """Factor on how long a fault lasts: below 1 for a short run."""
    lease_s: float = 4.0
    """How long a node holds an action without a heartbeat."""


@dataclass(kw_only=True)
class Environment:
    """What a run works on, and what its faults act on."""

    target: Target
    proxy: Proxy
    processes: Processes
    folder: Path
    server: Server | None
    """None: the user's server, which the checker must not kill."""
    options: Options
    small_disk: Path | None = None
    relay_targets: Sequence[RelayTarget] = ()
    second_server: Server | None = None
    """The server of the second shard."""
    history: History = field(init=False)
    """What the faults publish themselves."""
    _op: int = 0
    _next_failpoints: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.history = History(self.folder / "producer-nemesis.0001.jsonl")

    @property
    def targets(self) -> list[Target]:
        """Every shard, without the proxy."""
        return [Target(MAIN, self.target.dsn), *(Target(shard_name(index), dsn) for index, dsn in enumerate(self.shards))]

    @property
    def proxy_dsn(self) -> str:
        """The address of the database through the proxy."""
        return make_conninfo(self.target.dsn, host="127.0.0.1", port=self.proxy.port)

    @property
    def shards(self) -> tuple[str, ...]:
        """The addresses of the further shards, without the proxy: it cuts the first one only."""
        return (self.second_server.dsn(),) if self.second_server else ()

    def config(self, name: str, **changes: object) -> ProcessConfig:
        """The configuration of a new process."""
        options = self.options
        config = ProcessConfig(name=name, dsn=self.proxy_dsn, folder=str(self.folder), seed=options.seed, lease_s=options.lease_s)
        return msgspec.structs.replace(config, **changes)

    def next_failpoint(self, draw: random.Random) -> str:
        """A random failpoint; every one is used once before any is used twice."""
        names = self.options.failpoints or NAMES
        self._next_failpoints = self._next_failpoints or draw.sample(list(names), len(names))
        return self._next_failpoints.pop()

    def hold(self, seconds: float) -> None:
        """Waits while a fault lasts."""
        time.sleep(seconds * self.options.fault_scale)

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        """A connection to the first shard, without the proxy."""
        with connect(self.target) as conn:
            yield conn

    @contextmanager
    def record_transaction(self, events: tuple[SentEvent, ...]) -> Iterator[None]:
        """Records a transaction of a fault in a history, as a producer does."""
        self._op += 1
        op = self._op
        self.history.write(Invoked(op=op, at=now(), events=events))
        try:
            yield
        except psycopg.Error as error:
            self.history.write(Completed(op=op, at=now(), outcome="unknown", error=str(error)[:300]))
            raise
        self.history.write(Completed(op=op, at=now(), outcome="ok"))


@dataclass(frozen=True)
class Fault:
    """A kind of fault. `inject` is a block: the fault lasts while it runs, and is healed at its end."""

    name: str
    inject: Callable[[Environment, random.Random], AbstractContextManager[str]]
    what: str
    needs_own_server: bool = False
    """Only on a server that the checker started."""
    opt_in: bool = False
    """Only if it is named, since it changes where the server's data is."""
    spark: bool = False
    """Only if the run has a pipeline."""
    relays: bool = False
    """Only if the run has relays to servers of its own."""


def fault(name: str, what: str, **needs: bool) -> Callable[[Callable[[Environment, random.Random], Iterator[str]]], Fault]:
    """Makes a fault from a generator that yields once, when the fault has begun, and yields its details."""
    return lambda inject: Fault(name, contextmanager(inject), what, **needs)


@contextmanager
def open_environment(options: Options, faults: Sequence[str]) -> Iterator[Environment]:
    """A database with the workload's topics, rules and correlators, and no process yet; a small disk and a second shard if a fault needs
    them."""
    folder = options.keep or Path(tempfile.mkdtemp(prefix="headrace-prove-"))
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    with (
        _database(options, folder, small_disk="disk-full" in faults) as (target, server, disk),
        _second_shard(folder, wanted="shard-down" in faults) as second_server,
        running_targets(options.relays, folder) as relay_targets,
    ):
        with connect(target) as conn:
            # Whatever a seeded bug does to later commits, the workload begins with what is here.
            conn.execute("set synchronous_commit = on")
            migrate(conn)
            create_workload(conn, minutes=options.minutes, spark=options.spark)
            plant_in_database(conn, options.bugs)
        parts = conninfo_to_dict(target.dsn)
        proxy = Proxy(str(parts.get("host") or "127.0.0.1"), int(str(parts.get("port") or 5432)))
        proxy.start()
        processes = Processes(folder)
        try:
            with connect(target) as conn:
                conn.execute("set synchronous_commit = on")
                create_copying_relay(conn, make_conninfo(target.dsn, host="127.0.0.1", port=proxy.port))
                for relay_target in relay_targets:
                    create_relay(conn, relay_target.relay)
            yield Environment(
                target=target,
                proxy=proxy,
                processes=processes,
                folder=folder,
                server=server,
                options=options,
                small_disk=disk,
                second_server=second_server,
                relay_targets=relay_targets,
            )
        finally:
            processes.kill_all()
            proxy.stop()
    if options.keep is None:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _database(options: Options, folder: Path, *, small_disk: bool) -> Iterator[tuple[Target, Server | None, Path | None]]:
    if options.dsn:
        if "=" in options.dsn.split("://", 1)[0]:
            raise Invalid("prove takes one database, not several shards; give one address")
        yield Target("given", create_database(options.dsn, DATABASE, MAKER)), None, None
        return
    with _server_folder(folder, small_disk) as (server_folder, disk):
        settings = SETTINGS | (SMALL_DISK_SETTINGS if disk else {}) | server_settings(options.bugs)
        with _running(Server(server_folder, settings=settings)) as server:
            yield Target("own", create_database(server.dsn(), DATABASE, MAKER)), server, disk


@contextmanager
def _running(server: Server) -> Iterator[Server]:
    server.start()
    try:
        yield server
    finally:
        with suppress(Exception):
            server.stop()
        server.kill()


@contextmanager
def _second_shard(folder: Path, *, wanted: bool) -> Iterator[Server | None]:
    """A small server of its own with the same topics, rules, correlators and schedule."""
    if not wanted:
        yield None
        return
    with _running(Server(folder / "pg2", settings=SETTINGS | {"shared_buffers": "32MB"})) as server:
        with connect(Target("second", server.dsn())) as conn:
            migrate(conn)
            create_workload(conn, minutes=0)
            create_copying_relay(conn, server.dsn())
        yield server


@contextmanager
def _server_folder(folder: Path, small_disk: bool) -> Iterator[tuple[Path, Path | None]]:
    """The folder of the server, and the small disk that holds it, if one was asked for."""
    server_folder = folder / "pg"
    server_folder.mkdir()
    if not small_disk:
        yield server_folder, None
        return
    if not mount_small_disk(server_folder):
        raise Invalid("the fault disk-full needs the right to mount a small disk in memory; leave it out, or run as root")
    try:
        yield server_folder / "server", server_folder
    finally:
        subprocess.run(["umount", str(server_folder)], check=False, capture_output=True)


def mount_small_disk(folder: Path, size_bytes: int = TMPFS_BYTES) -> bool:
    """Mounts a disk of a fixed size, in memory, at the folder; False if that is not allowed."""
    program = shutil.which("mount")
    if program is None:
        return False
    command = [program, "-t", "tmpfs", "-o", f"size={size_bytes},mode=755", "tmpfs", str(folder)]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0
