"""The workflows for continuous integration: a linter accepts them, and they call our make targets on every supported version."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".github/workflows"
WORKFLOWS = sorted(FOLDER.glob("*.yml"))
JOB_KEYS = {"name", "needs", "runs-on", "container", "timeout-minutes", "permissions", "strategy", "env", "steps"}
STEP_KEYS = {"name", "uses", "with", "run", "env"}


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    """Zizmor reads workflows strictly, and knows how they are attacked."""
    zizmor = shutil.which("zizmor", path=str(Path(sys.executable).parent))
    assert zizmor is not None, "zizmor is not installed; run: make setup"
    command = [zizmor, "--offline", "--no-progress", "--strict-collection", ".github/workflows"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=60)


def jobs(path: Path) -> Mapping[str, dict[str, Any]]:
    """The jobs of a workflow."""
    found: Mapping[str, dict[str, Any]] = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"]
    return found


def test_linter_finds_nothing() -> None:
    done = lint(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        ("run: make lint", "run: echo ${{ github.event.head_commit.message }}"),
        ("@08c6903cd8c0fde910a37f88322edcfb5dd907a8 # v5.0.0", "@main"),
        ("contents: read", "contents: reed"),
        ("runs-on:", "run-on:"),
    ],
    ids=["injection", "unpinned action", "unknown permission", "no runner"],
)
def test_linter_notices_mistakes(tmp_path: Path, good: str, bad: str) -> None:
    shutil.copytree(FOLDER, tmp_path / ".github/workflows")
    copy = tmp_path / ".github/workflows/tests.yml"
    text = copy.read_text(encoding="utf-8")
    assert good in text
    copy.write_text(text.replace(good, bad), encoding="utf-8")
    assert lint(tmp_path).returncode != 0


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_jobs_and_steps_have_known_keys_and_a_time_limit(path: Path) -> None:
    for name, job in jobs(path).items():
        assert job.keys() <= JOB_KEYS and "timeout-minutes" in job, name
        assert [step for step in job["steps"] if not step.keys() <= STEP_KEYS] == [], name


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_every_make_target_exists(path: Path) -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    called = re.findall(r"\bmake ([\w-]+)", path.read_text(encoding="utf-8").replace("make python3-venv", ""))
    assert called and set(called) <= targets


def test_tests_run_on_every_supported_python_and_postgresql() -> None:
    """PostgreSQL 18 is the embedded one, which runs beside each of the others."""
    runs = jobs(FOLDER / "tests.yml")["test"]["strategy"]["matrix"]["include"]
    assert [run["python"] for run in runs] == ["3.11", "3.12", "3.13", "3.14"]
    assert {run["postgres"] for run in runs} == {"15", "16", "17"}


def test_release_is_built_from_a_tag_and_signed() -> None:
    # YAML reads the key `on` as true.
    assert yaml.safe_load((FOLDER / "release.yml").read_text(encoding="utf-8"))[True] == {"push": {"tags": ["v*"]}}
    build, publish = jobs(FOLDER / "release.yml").values()
    assert publish["needs"] == "build" and build["permissions"] == {"contents": "read"}
    assert any(step.get("uses", "").startswith("actions/attest-build-provenance@") for step in publish["steps"])
