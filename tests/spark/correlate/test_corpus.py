"""Every case of the ECL corpus on Spark, in batch and as a stream, in a few jobs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

from headrace.lang.ecl import Output, load_corpus
from headrace.spark import run_ecl_cases

CORPUS = Path(__file__).parents[2] / "corpus"
CASES = [case for path in sorted(CORPUS.glob("ecl*.toml")) for case in load_corpus(path)]


@pytest.mark.parametrize("engine", ["spark", "spark-stream"])
def test_spark_gives_the_answers_of_the_whole_corpus(spark: Any, engine: Literal["spark", "spark-stream"]) -> None:
    assert len(CASES) >= 400
    assert [difference for difference in run_ecl_cases(spark, CASES, engine) if difference is not None] == []


def test_wrong_answer_is_named_with_event_and_engine(spark: Any) -> None:
    case = next(case for case in CASES if case.outputs and case.outputs[0])
    wrong = replace(case, outputs=((Output("nobody", 0),), *case.outputs[1:]))
    (difference,) = run_ecl_cases(spark, [wrong])
    assert difference is not None
    assert f"{case.name}: spark: event 1 ({case.events[0].type}): expected nobody at 0 s" in difference
