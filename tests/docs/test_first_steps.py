"""The README's example and then the tutorial, as a reader without a database of his own tries them: with the embedded server."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from headrace.db import SERVER_FOLDER, data_folder
from tests.cli.conftest import Answer, call, shared_folder  # noqa: F401 - a fixture
from tests.docs.guide import DOCS
from tests.docs.test_readme import commands


def readme() -> list[list[str]]:
    """The commands of the README's example that create something."""
    return [words[1:] for words in commands("headrace migrate") if words[:2] in (["headrace", "migrate"], ["headrace", "topic"])]


def tutorial() -> list[list[str]]:
    """The commands of the tutorial's first two steps."""
    pages = "".join((DOCS / f"tutorial/{page}.md").read_text() for page in ("01-install", "02-first-event"))
    lines = [line for block in re.findall(r"```sh run\n(.*?)```", pages, re.DOTALL) for line in block.splitlines()]
    return [shlex.split(line)[1:] for line in lines if "tail" not in line]


def run(steps: list[list[str]]) -> list[Answer]:
    return [call(*step) for step in steps]


@pytest.mark.lane("pg18")
@pytest.mark.timeout(300)
def test_tutorial_works_after_the_readme_in_another_folder_and_after_a_reset_in_the_same(
    shared_folder: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    for name in ("HEADRACE_DSN", "DATABASE_URL", "HEADRACE_DATA"):
        monkeypatch.delenv(name, raising=False)
    first, second, below = shared_folder / "readme", shared_folder / "tutorial", shared_folder / "tutorial" / "src" / "shop"
    for folder in (first, below):
        folder.mkdir(parents=True)
    started: list[Path] = []
    try:
        for folder, steps in ((first, readme()), (second, tutorial())):
            monkeypatch.chdir(folder)
            started.append(folder)
            answers = run(steps)
            assert [answer.code for answer in answers] == [0] * len(steps), [answer.err for answer in answers]
            assert any(str(folder / ".headrace") in message for message in caplog.messages), "the folder is shown"
        monkeypatch.chdir(below)
        assert data_folder() == second / ".headrace", "found upwards"
        assert [row["topic"] for row in call("topic", "list", "--json").json] == ["orders"]
        monkeypatch.chdir(first)
        assert [answer.code for answer in run(tutorial())][1] == 4, "the topic exists: there was no reset"
        assert call("server", "reset", stdin="n\n").code == 1
        assert call("server", "reset", "--yes").code == 0
        assert not (first / ".headrace" / SERVER_FOLDER).exists()
        assert [answer.code for answer in run(tutorial())] == [0] * len(tutorial())
    finally:
        for folder in started:
            monkeypatch.chdir(folder)
            call("server", "stop")
