"""The files of the repository name no package registry, no path of a machine and no tool of their authors; one version."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import yaml

import headrace.db

ROOT = Path(__file__).parents[2]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
# Written so that this file does not find itself.
REGISTRIES = ("pypi" + r"\.org", r"files\.python" + "hosted", "registry\\." + "npmjs", "reg" + r"istry\.yarnpkg")
PATHS = ("/tmp/w" + "t/", "/wo" + "rk/", "/root" + r"/\.", "/opt/py" + "pi")
AUTHORS = (r"\b(?:AI|coding|sub)[- ]?ag" + r"ents?\b", r"\bCla" + r"ude\b", r"\bhelper ses" + "sion")
FORBIDDEN = re.compile("|".join((*REGISTRIES, *PATHS, *AUTHORS)))


def texts() -> dict[str, str]:
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    paths = [ROOT / name for name in names if not name.endswith((".png", ".svg"))]
    return {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in paths if path.is_file()}


def test_no_file_names_a_registry_a_path_of_a_machine_or_a_tool_of_its_author() -> None:
    found = {name: FORBIDDEN.findall(text) for name, text in texts().items()}
    assert {name: words for name, words in found.items() if words} == {}


def test_the_version_is_written_in_one_place() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    changes = (ROOT / "CHANGELOG.md").read_text()
    assert headrace.db.RELEASE == VERSION == citation["version"]
    assert re.findall(r"^## (\S+)", changes, re.MULTILINE)[0] == VERSION


def test_changes_of_a_release_are_short_lines_under_one_heading_each() -> None:
    newest = (ROOT / "CHANGELOG.md").read_text().split("\n## ")[1]
    lines = newest.splitlines()
    headings = [line for line in lines if line.startswith("#")]
    assert [line[:60] for line in lines if len(line) > 150] == []
    assert sorted(set(headings)) == sorted(headings)
