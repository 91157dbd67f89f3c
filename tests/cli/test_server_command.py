"""`headrace server`: the embedded server of the project; a reset deletes it, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.db import SERVER_FOLDER, data_folder
from tests.cli.conftest import call, shared_folder  # noqa: F401 - a fixture


def test_reset_never_deletes_what_headrace_did_not_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_DATA", str(tmp_path))
    program = tmp_path / SERVER_FOLDER / "bin" / "postgres"
    program.parent.mkdir(parents=True)
    program.write_text("of an own installation")
    answer = call("server", "reset", "--yes")
    assert answer.code == 5 and "holds bin, which headrace did not put there" in answer.err
    assert program.exists()


def test_reset_without_a_server_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_DATA", str(tmp_path))
    assert "nothing was deleted" in call("server", "reset").out
    assert call("server", "stop").code == 0 and call("server", "status").code == 3
    assert list(tmp_path.iterdir()) == []


def test_reset_says_that_the_configured_database_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_DATA", str(tmp_path))
    monkeypatch.setenv("HEADRACE_DSN", "postgresql://localhost:1/elsewhere")
    (tmp_path / SERVER_FOLDER).mkdir()
    answer = call("server", "reset", "--yes")
    assert answer.code == 0 and "commands use the database of HEADRACE_DSN or DATABASE_URL, which was not changed" in answer.out
    assert list(tmp_path.iterdir()) == []


def test_home_folder_is_no_project_of_the_folders_below(
    shared_folder: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    home, below = shared_folder, shared_folder / "shop" / "src"
    below.mkdir(parents=True)
    (home / ".headrace").mkdir()
    monkeypatch.chdir(below)
    assert data_folder({}) == home / ".headrace"
    assert data_folder({"HOME": str(home)}) == below / ".headrace"
    monkeypatch.chdir(home)
    assert data_folder({"HOME": str(home)}) == home / ".headrace", "found in the home folder itself"
