"""The wheel is whole, typed, and works in fresh environments. Slow: `make test-package`."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from filelock import FileLock

from scripts import package
from scripts.package import ROOT, Distribution, PackageError

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
ROOMS = {
    "embedded": "headrace.db",
    "sqlalchemy": "headrace.drivers.sqlalchemy, greenlet",
    "django": "headrace.integrations.django.apps",
    "alembic": "headrace.integrations.alembic",
    "asyncpg": "asyncpg",
    "otel": "headrace.observe.tracing",
    "schema": "jsonschema_rs",
    "http": "headrace.web.http",
    "console": "headrace.web.console",
    "relay": "headrace.relays.targets",
    "fast": "uvloop",
    "demo": "headrace.demo",
    "report": "headrace.observe.reports",
    "prove": "headrace.prove",
    "arrow": "headrace.log.arrow",
    "iceberg": "headrace.log.archive, pyiceberg.catalog.sql",
    "spark": "headrace.spark, headrace.log.archive",
    "pipelines": "headrace.spark, pyspark.pipelines",
    "connect": "headrace.spark, pyspark.sql.connect.session",
}
"""What each extra lets you import. `dev` and `bench` are for work on headrace itself."""
OLDEST, NEWEST = (3, 11), (3, 13)
PYTHONS = [
    path
    for minor in range(OLDEST[1], NEWEST[1] + 1)
    if minor != sys.version_info.minor and (path := package.find_python(f"3.{minor}")) is not None
]
"""The other supported versions that this machine has. The tests above run on the one that runs them."""


TOGETHER = (("spark", "connect", "pipelines"),)
"""Extras that are installed one after the other into one environment: each contains those before it, and they are large."""
GROUPS = sorted([*TOGETHER, *((extra,) for extra in ROOMS if not any(extra in group for group in TOGETHER))])


@pytest.fixture(scope="session")
def distribution(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Distribution:
    """Wheel and sdist, built once for all processes of the run."""
    folder = _shared_folder(tmp_path_factory, worker_id)
    with FileLock(folder.with_suffix(".lock")):
        if not (folder / "dist").exists():
            folder.mkdir(exist_ok=True)
            return package.build(folder)
    (wheel,), (sdist,) = (folder / "dist").glob("*.whl"), (folder / "dist").glob("*.tar.gz")
    return Distribution(wheel, sdist)


@pytest.fixture(scope="session")
def wheels(distribution: Distribution) -> Path:
    """All wheels that the extras need."""
    folder = distribution.wheel.parents[1] / "wheels"
    with FileLock(folder.with_suffix(".lock")):
        return folder if folder.exists() else package.collect_wheels(distribution.wheel, folder, sorted(ROOMS))


def _shared_folder(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    base = tmp_path_factory.getbasetemp()
    return (base if worker_id == "master" else base.parent) / "package"


@pytest.fixture(scope="module")
def bare(distribution: Distribution, wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with the wheel and no extra."""
    return package.install(distribution.wheel, tmp_path_factory.mktemp("bare") / "venv", wheels=wheels)


def test_wheel_and_sdist_hold_every_file_of_the_package(distribution: Distribution) -> None:
    assert package.check_contents(distribution) > 500


def test_metadata_are_valid(distribution: Distribution) -> None:
    metadata = package.read_metadata(distribution)
    assert (metadata.license_expression, metadata.license_files) == ("Apache-2.0", ["LICENSE"])
    assert set(metadata.provides_extra or []) == set(EXTRAS)


def test_without_extras_the_demo_names_the_one_to_install(bare: Path, tmp_path: Path) -> None:
    assert package.run([str(bare / "headrace"), "--version"], cwd=tmp_path).split()[-1].count(".") == 2
    with pytest.raises(PackageError, match=r"(?s)ended with 3.*headrace\[demo\]"):
        package.run([str(bare / "headrace"), "demo", "--short"], cwd=tmp_path)


def test_every_extra_for_users_is_tried() -> None:
    assert set(ROOMS) == set(EXTRAS) - {"dev", "bench"}


@pytest.mark.parametrize("extras", GROUPS, ids="+".join)
def test_extra_installs_imports_and_runs_the_short_demo(
    extras: tuple[str, ...], distribution: Distribution, wheels: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "venv"
    for extra in extras:
        programs = package.install(distribution.wheel, folder, extras=extra, wheels=wheels)
        package.run([str(programs / "python"), "-c", f"import {ROOMS[extra]}"], cwd=tmp_path)
    package.install(distribution.wheel, folder, extras="demo", wheels=wheels)
    assert package.try_demo(programs) > 20
    shutil.rmtree(folder)


@pytest.mark.parametrize("python", PYTHONS, ids=str)
def test_wheel_runs_on_every_supported_python(python: str, distribution: Distribution, tmp_path: Path) -> None:
    programs = package.install(distribution.wheel, tmp_path / "venv", extras="demo,console,http", python=python)
    package.run([str(programs / "python"), "-c", "import headrace.web.console, headrace.web.http"], cwd=tmp_path)
    assert package.try_demo(programs) > 20


PROGRAM = """
from headrace import Headrace, LoggedEvent, publish
from psycopg import Connection

app = Headrace()

@app.consumer("orders")
def bill(event: LoggedEvent, conn: Connection) -> None:
    reveal_type(event.topic)

def place(conn: Connection) -> None:
    reveal_type(publish(conn, "orders", "order.placed", {"id": 1}))
    publish(conn, "orders", 7, {"id": 1})
"""


def test_program_is_checked_against_the_types_of_the_installed_wheel(bare: Path, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "mypy", "--strict", "--python-executable", str(bare / "python"), "shop.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert 'Revealed type is "str"' in done.stdout and 'Revealed type is "uuid.UUID"' in done.stdout, done.stdout + done.stderr
    assert [line.split(":")[1] for line in done.stdout.splitlines() if "error:" in line] == ["13"], done.stdout
