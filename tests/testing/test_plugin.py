"""The pytest plugin, in projects of their own: real folders, run by pytest as a user runs it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from headrace.db import Server
from headrace.testing import plugin

ROOT = Path(__file__).parents[2]

# Plugins of our own environment, which take seconds to load.
QUICK = [
    word for name in ("cacheprovider", "hypothesispytest", "xdist", "xdist.looponfail", "anyio") for word in ("-p", f"no:{name}")
]

APPLICATION = """
    from headrace import Headrace

    app = Headrace()

    @app.on("placed", topic="orders")
    async def confirm(action, tx):
        await tx.execute("insert into mail values (%s)", (action.payload["to"],))
"""
CONFTEST = """
    import pytest

    @pytest.fixture(scope="session")
    def headrace_setup():
        def setup(conn):
            from headrace.log.topics import create_topic
            create_topic(conn, "orders")
            conn.execute("create table mail (recipient text)")
        return setup
"""
TESTS = """
    import os, time
    import psycopg, pytest
    from headrace import publish
    from shop import app

    @pytest.mark.parametrize("number", range(5))
    def test_each_test_has_a_database_of_its_own(headrace_kit, number):
        assert headrace_kit.conn.execute("select count(*) from mail").fetchone() == (0,)
        headrace_kit.publish("orders", "placed", {"to": f"{number}@example.com"})
        headrace_kit.run_until_idle_sync(app)
        assert headrace_kit.conn.execute("select recipient from mail").fetchall() == [(f"{number}@example.com",)]
        [action] = headrace_kit.actions(state="done")
        assert action.payload == {"to": f"{number}@example.com"}

    def test_application_publishes_by_its_own_connection(headrace_dsn, headrace_kit):
        assert headrace_dsn.startswith("postgresql://")
        with psycopg.connect(headrace_dsn) as conn:
            publish(conn, "orders", "placed", {"to": "x"})
        assert headrace_kit.run_until_idle_sync(app).actions == 1

    def test_connection_that_a_test_leaves_open_does_not_keep_the_database(headrace_dsn):
        test_connection_that_a_test_leaves_open_does_not_keep_the_database.conn = psycopg.connect(headrace_dsn)

    def test_database_is_copied_and_not_migrated_again(headrace_server, headrace_template):
        seconds = []
        for _ in range(5):
            started = time.perf_counter()
            with headrace_server.database(headrace_template):
                pass
            seconds.append(time.perf_counter() - started)
        print("seconds per database:", [round(each, 3) for each in seconds])
        assert min(seconds) < 1
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project folder, and headrace's entry point as an installation would register it."""
    entry_points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    installed = tmp_path / "site" / "headrace_entry_points-1.0.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: headrace-entry-points\nVersion: 1.0\n")
    lines = [
        f"[{group}]\n" + "\n".join(f"{name} = {value}" for name, value in names.items()) for group, names in entry_points.items()
    ]
    (installed / "entry_points.txt").write_text("\n".join(lines) + "\n")
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "pytest.ini").write_text("[pytest]\n")
    return folder


def write(project: Path, **files: str) -> None:
    for name, text in files.items():
        (project / f"{name}.py").write_text(textwrap.dedent(text))


def run(project: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(map(str, (project, project.parent / "site", ROOT / "src")))
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("HEADRACE", "PYTEST"))}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *QUICK, *words],
        cwd=project,
        env={**clean, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def seconds_per_database(output: str) -> list[float]:
    match = re.search(r"seconds per database: \[(.*)\]", output)
    assert match, output
    return [float(number) for number in match[1].split(",")]


def test_project_runs_on_an_embedded_server_that_leaves_nothing_behind(project: Path) -> None:
    write(project, shop=APPLICATION, conftest=CONFTEST, test_shop=TESTS)
    result = run(project, "-s", TMPDIR=str(project.parent))
    assert result.returncode == 0, result.stdout + result.stderr
    assert "8 passed" in result.stdout
    assert min(seconds_per_database(result.stdout)) < 0.2
    folders = [*project.parent.glob("headrace-pytest-*"), *Path("/dev/shm").glob(f"headrace-pytest-{os.getpid()}-*")]
    assert folders == []


@pytest.mark.lane("pg18")
def test_project_runs_on_a_given_server_and_drops_its_databases(project: Path, server: Server) -> None:
    write(project, shop=APPLICATION, conftest=CONFTEST, test_shop=TESTS)
    with psycopg.connect(server.dsn()) as conn:
        before = {str(name) for (name,) in conn.execute("select datname from pg_database").fetchall()}
    for chosen in ("shop", "application"):
        result = run(project, "-k", chosen, HEADRACE_TEST_DSN=server.dsn())
        assert result.returncode == 0, result.stdout + result.stderr
    with psycopg.connect(server.dsn()) as conn:
        rows = conn.execute("select datname from pg_database where datname like 'headrace%'").fetchall()
    names = {str(name) for (name,) in rows} - before
    assert len(names) == 1 and names.pop().startswith("headrace_template_"), "only the migrated template stays"


@pytest.mark.lane("pg18")
def test_role_that_may_not_create_databases_is_told_what_to_do(project: Path, conn: psycopg.Connection, server: Server) -> None:
    write(project, test_shop="def test_it(headrace_kit):\n    pass\n")
    conn.execute("create role weak_tester login")
    dsn = server.dsn().replace("postgres@", "weak_tester@")
    result = run(project, HEADRACE_TEST_DSN=dsn)
    assert result.returncode == 1 and "give it CREATEDB" in result.stdout, result.stdout


def test_plugin_costs_nothing_where_it_is_not_used(project: Path) -> None:
    """It imports neither psycopg nor any module of headrace but its own."""
    write(
        project,
        test_other="""
            import sys

            def test_nothing_is_loaded(pytestconfig):
                assert pytestconfig.pluginmanager.hasplugin("headrace"), "the entry point was found"
                assert "psycopg" not in sys.modules and "msgspec" not in sys.modules
                loaded = {name for name in sys.modules if name.startswith("headrace")}
                assert loaded == {"headrace", "headrace.lazy_names", "headrace.testing", "headrace.testing.plugin"}, loaded
        """,
    )
    result = run(project)
    assert result.returncode == 0, result.stdout + result.stderr


def test_fixtures_do_not_take_names_of_others() -> None:
    names = [name for name, value in vars(plugin).items() if "fixture" in type(value).__name__.lower()]
    assert len(names) >= 6 and all(name.startswith("headrace_") for name in names), names


def test_server_of_a_killed_session_is_removed_by_the_next_one(project: Path) -> None:
    write(
        project,
        test_kill="""
            import os, signal

            def test_it(headrace_server):
                os.kill(os.getpid(), signal.SIGKILL)
        """,
        test_next="""
            def test_it(headrace_server):
                pass
        """,
    )
    memory = {"TMPDIR": str(project.parent)}
    killed = run(project, "test_kill.py", **memory)
    assert killed.returncode == -9
    folders = [folder for parent in (project.parent, Path("/dev/shm")) for folder in parent.glob("headrace-pytest-*")]
    orphans = [folder for folder in folders if not Path(f"/proc/{folder.name.split('-')[2]}").exists()]
    assert orphans
    following = run(project, "test_next.py", **memory)
    assert following.returncode == 0, following.stdout
    assert not any(orphan.exists() for orphan in orphans)


def test_sessions_that_start_together_remove_a_killed_server_together(project: Path) -> None:
    write(
        project,
        test_kill="""
            import os, signal

            def test_it(headrace_server):
                os.kill(os.getpid(), signal.SIGKILL)
        """,
        test_next="""
            def test_it(headrace_server):
                pass
        """,
    )
    assert run(project, "test_kill.py").returncode == -9
    with ThreadPoolExecutor(4) as pool:
        sessions = list(pool.map(lambda _: run(project, "test_next.py"), range(4)))
    assert [session.returncode for session in sessions] == [0] * 4, [session.stdout for session in sessions]
