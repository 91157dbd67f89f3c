"""Scene: the database of a run, the way to it, and its processes. All that is started here is ended here."""

from __future__ import annotations

import random
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from headrace.core import Conflict, Invalid
from headrace.db import Connection, Server, Target, connect, migrate
from headrace.prove.actor import MAIN, Orders, shard_name
from headrace.prove.bug import plant_in_database, server_settings
from headrace.prove.failpoint import NAMES
from headrace.prove.history import Ended, History, Invoked, Sent, now
from headrace.prove.processes import Cast
from headrace.prove.proxy import Proxy
from headrace.prove.workload import furnish

DATABASE = "headrace_prove"
MARK = "made by headrace prove; the next run drops it"
SETTINGS = {"max_connections": "90", "shared_buffers": "128MB", "max_wal_size": "1GB"}
"""Of the checker's own server. Durability stays as PostgreSQL has it by default."""
TMPFS_BYTES = 700_000_000
SMALL = {"max_wal_size": "128MB", "min_wal_size": "32MB"}


@dataclass(kw_only=True)
class Scene:
    """Where a run plays."""

    target: Target
    proxy: Proxy
    cast: Cast
    folder: Path
    server: Server | None
    """None: a server that was given, and is not ours to kill."""
    seed: int
    lease_s: float
    failpoints: Sequence[str] = NAMES
    small_disk: Path | None = None
    shard: Server | None = None
    """The server of the second shard."""
    nemesis: History = field(init=False)
    _op: int = 0
    _points: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.nemesis = History(self.folder / "producer-nemesis.0001.jsonl")

    @property
    def targets(self) -> list[Target]:
        """Every shard, straight."""
        return [Target(MAIN, self.target.dsn), *(Target(shard_name(place), dsn) for place, dsn in enumerate(self.shards))]

    @property
    def through(self) -> str:
        """The database's address by way of the proxy."""
        return make_conninfo(self.target.dsn, host="127.0.0.1", port=self.proxy.port)

    @property
    def shards(self) -> tuple[str, ...]:
        """The addresses of the further shards. Not by way of the proxy: what it cuts is the first one."""
        return (self.shard.dsn(),) if self.shard else ()

    def orders(self, name: str, **more: object) -> Orders:
        given = {"name": name, "dsn": self.through, "folder": str(self.folder), "seed": self.seed, "lease_s": self.lease_s} | more
        return Orders(**given)  # type: ignore[arg-type]

    def told(self, name: str, **more: object) -> Orders:
        """What a process of the cast was told, but for this."""
        return msgspec.structs.replace(self.cast.members[name].orders, **more)

    def next_failpoint(self, draw: random.Random) -> str:
        """Each comes once before any comes twice."""
        self._points = self._points or draw.sample(list(self.failpoints), len(self.failpoints))
        return self._points.pop()

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        """Straight to the database."""
        with connect(self.target) as conn:
            yield conn

    @contextmanager
    def recorded(self, events: tuple[Sent, ...]) -> Iterator[None]:
        """A transaction of the nemesis's own, in the history as any producer's."""
        self._op += 1
        op = self._op
        self.nemesis.write(Invoked(op=op, at=now(), events=events))
        try:
            yield
        except psycopg.Error as error:
            self.nemesis.write(Ended(op=op, at=now(), outcome="unknown", error=str(error)[:300]))
            raise
        self.nemesis.write(Ended(op=op, at=now(), outcome="ok"))


@contextmanager
def scene(
    *,
    seed: int,
    dsn: str | None,
    bugs: Sequence[str] = (),
    lease_s: float,
    minutes: float = 1.0,
    small_disk: bool = False,
    spark: bool = False,
    shard: bool = False,
    keep: Path | None = None,
) -> Iterator[Scene]:
    """A furnished database with nobody at work yet; a second one where a shard is to go down."""
    folder = keep or Path(tempfile.mkdtemp(prefix="headrace-prove-"))
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    with _database(dsn, folder, bugs, small_disk) as (target, server, disk), _second(folder, wanted=shard) as second:
        with connect(target) as conn:
            migrate(conn)
            furnish(conn, minutes=minutes, spark=spark)
            plant_in_database(conn, bugs)
        parts = conninfo_to_dict(target.dsn)
        proxy = Proxy(str(parts.get("host") or "127.0.0.1"), int(str(parts.get("port") or 5432)))
        proxy.start()
        cast = Cast(folder)
        try:
            yield Scene(
                target=target,
                proxy=proxy,
                cast=cast,
                folder=folder,
                server=server,
                seed=seed,
                lease_s=lease_s,
                small_disk=disk,
                shard=second,
            )
        finally:
            cast.end_all()
            proxy.stop()
    if keep is None:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _database(
    dsn: str | None, folder: Path, bugs: Sequence[str], small_disk: bool
) -> Iterator[tuple[Target, Server | None, Path | None]]:
    if dsn:
        yield Target("given", _fresh(dsn)), None, None
        return
    with _place(folder, small_disk) as (place, disk):
        settings = SETTINGS | (SMALL if disk else {}) | server_settings(bugs)
        with _running(Server(place, settings=settings)) as server:
            yield Target("own", _fresh(server.dsn())), server, disk


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
def _second(folder: Path, *, wanted: bool) -> Iterator[Server | None]:
    """A second shard: the same topics, rules, correlators and schedule on a small server of its own."""
    if not wanted:
        yield None
        return
    with _running(Server(folder / "pg2", settings=SETTINGS | {"shared_buffers": "32MB"})) as server:
        with connect(Target("second", server.dsn())) as conn:
            migrate(conn)
            furnish(conn, minutes=0)
        yield server


@contextmanager
def _place(folder: Path, small_disk: bool) -> Iterator[tuple[Path, Path | None]]:
    """The folder of the server: on a small disk of its own where that was asked for and can be made."""
    place = folder / "pg"
    place.mkdir()
    if not small_disk:
        yield place, None
        return
    if not mount_small(place):
        raise Invalid("the fault disk-full needs the right to mount a small disk in memory; leave it out, or run as root")
    try:
        yield place / "server", place
    finally:
        unmount(place)


def mount_small(place: Path, size_bytes: int = TMPFS_BYTES) -> bool:
    """Makes the folder a disk of a fixed size in memory; False where that is not allowed."""
    program = shutil.which("mount")
    if program is None:
        return False
    made = subprocess.run(
        [program, "-t", "tmpfs", "-o", f"size={size_bytes},mode=755", "tmpfs", str(place)], check=False, capture_output=True
    )
    return made.returncode == 0


def unmount(place: Path) -> None:
    subprocess.run(["umount", str(place)], check=False, capture_output=True)


def _fresh(dsn: str) -> str:
    """A fresh database on a server; one that was not made by the checker is not touched."""
    if "=" in dsn.split("://", 1)[0]:
        raise Invalid("prove takes one database, not several shards; give one address")
    name = sql.Identifier(DATABASE)
    with psycopg.connect(dsn, autocommit=True) as admin:
        row = admin.execute(
            "select shobj_description(d.oid, 'pg_database') from pg_database d where d.datname = %s", (DATABASE,)
        ).fetchone()
        if row is not None and row[0] != MARK:
            raise Conflict(f"database {DATABASE!r} is there and was not made by headrace prove; rename or drop it")
        admin.execute(sql.SQL("drop database if exists {} with (force)").format(name))
        admin.execute(sql.SQL("create database {}").format(name))
        admin.execute(sql.SQL("comment on database {} is {}").format(name, sql.Literal(MARK)))
    return make_conninfo(dsn, dbname=DATABASE)
