"""The database gives the corpus's answers, and the interpreter's on random patterns."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from headrace.db import Target, connect_async
from headrace.lang.ecl import load_corpus
from headrace.react import run_cases

CORPUS = Path(__file__).parents[1] / "corpus"
CASES = [case for path in sorted(CORPUS.glob("ecl*.toml")) for case in load_corpus(path)]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


async def differences(database: Target, every: int) -> list[str]:
    conn = await connect_async(database)
    try:
        return [told for told in await run_cases(conn, CASES[::every]) if told is not None]
    finally:
        await conn.close()


@pytest.mark.lane("pg18")
async def test_database_gives_the_answers_of_the_whole_corpus(database: Target) -> None:
    assert len(CASES) >= 400
    assert await differences(database, 1) == []


@pytest.mark.lane("pg15")
async def test_older_database_gives_the_same_answers(database: Target) -> None:
    assert await differences(database, 20) == []
