"""Light rooms stay light: publishing imports no driver, and the database room imports heavy packages only when it uses them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "headrace"
HEAVY = {
    "lark",
    "pgmq",
    "platformdirs",
    "psycopg_pool",
    "pyarrow",
    "pyspark",
    "rich",
    "sqlalchemy",
    "structlog",
    "tenacity",
    "typer",
}
# The package itself is replaced by an empty one, so that only the room's own imports count.
PROGRAM = """
import sys, types
package = types.ModuleType("headrace")
package.__path__ = [sys.argv[1]]
sys.modules["headrace"] = package
__import__(sys.argv[2])
print(*sys.modules)
"""


def imported_by(room: str) -> set[str]:
    """The modules that a fresh process has after it imported a room."""
    command = [sys.executable, "-c", PROGRAM, str(SOURCE), room]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


@pytest.mark.parametrize("room", ["headrace.core", "headrace.log.outbox"])
def test_publishing_imports_no_driver_and_nothing_heavy(room: str) -> None:
    modules = imported_by(room)
    packages = {module.partition(".")[0] for module in modules}
    assert room in modules
    assert packages & (HEAVY | {"psycopg", "asyncpg", "django", "opentelemetry"}) == set()
    assert {module.split(".")[1] for module in modules if module.startswith("headrace.")} <= {
        "core",
        "drivers",
        "lazy_names",
        "log",
        "observe",
    }


def test_database_room_imports_heavy_packages_only_when_used() -> None:
    packages = {module.partition(".")[0] for module in imported_by("headrace.db")}
    assert "psycopg" in packages
    assert packages & HEAVY == set()


@pytest.mark.parametrize("room", ["headrace.spark", "headrace.spark.backtest", "headrace.spark.pipeline"])
def test_rooms_of_spark_import_spark_only_when_used(room: str) -> None:
    """So that a command can say which extra is missing."""
    packages = {module.partition(".")[0] for module in imported_by(room)}
    assert packages & {"pyspark", "pyarrow", "numpy"} == set()
