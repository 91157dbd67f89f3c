"""The tutorial runs as it is written, page by page, as one reader on one database does it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, Request, build_opener

import pytest
from pyspark.sql import SparkSession

from headrace.db import Target
from tests.docs.guide import DOCS
from tests.docs.tutorial import Reader, environment_for, missing_line
from tests.spark.reading import secret_file
from tests.web.console.conftest import serve

FIRST_TRACK = [f"tutorial/{page.stem}" for page in sorted((DOCS / "tutorial").glob("[01]*.md"))]
DATA_TRACK = [f"tutorial/{page.stem}" for page in sorted((DOCS / "tutorial").glob("data-*.md"))]
EDITED = '{"id": 8, "total": 3000, "phone": "555-0108"}'


def mend_in_console(database: Target) -> Callable[[], None]:
    """The clicks of page 8: the letter, what a redrive sends, Show the diff, Save the edit, Redrive."""

    browser = build_opener(HTTPCookieProcessor())

    def click(address: str, path: str, **fields: str) -> str:
        headers = {"Origin": address, "Sec-Fetch-Site": "same-origin"}
        request = Request(address + path, data=urlencode(fields).encode() if fields else None, headers=headers)
        with browser.open(request, timeout=30) as answer:
            return str(answer.read().decode())

    def mend() -> None:
        with serve([database]) as address:
            assert "KeyError" in click(address, "/dead-letters")
            page = click(address, "/dead-letters/letter/1")
            assert "What a redrive sends" in page and "Show the diff" in page
            form = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', page))
            assert "Save the edit" in click(address, "/dead-letters/edit/1", **form, payload=EDITED)
            click(address, "/dead-letters/edit/1", **form, payload=EDITED, step="save")
            click(address, "/dead-letters/redrive/1", **form, confirm="yes")

    return mend


@pytest.fixture
def reader(database: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    # Commands that run in this process find the database and the files as the reader's terminal does.
    monkeypatch.setenv("HEADRACE_DSN", database.dsn)
    monkeypatch.chdir(tmp_path)
    reader = Reader(tmp_path, environment_for(database.dsn), mend_in_console(database))
    yield reader
    reader.stop_node()


@pytest.mark.lane("pg18")
@pytest.mark.timeout(600)
def test_tutorial_runs_from_the_first_page_to_the_last(
    reader: Reader, database: Target, spark: SparkSession, tmp_path: Path
) -> None:
    assert len(FIRST_TRACK) == 10 and len(DATA_TRACK) == 4
    for page in FIRST_TRACK:
        assert reader.read(page) > 0
    reader.names |= {"spark": spark, "secret": secret_file(tmp_path, database)}
    for page in DATA_TRACK:
        assert reader.read(page) > 0


def test_output_that_lacks_a_line_is_noticed() -> None:
    assert missing_line("a … c\nd", "x\n a  b   c \n d") is None
    assert missing_line("d\na", "a\nd") == "a"
    assert missing_line("b", "a") == "b"
