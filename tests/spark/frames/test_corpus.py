"""Every case of the ECL corpus on Spark, in batch and as a stream, in a few jobs."""

from __future__ import annotations

from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any, Literal

import pytest

from headrace.lang.ecl import Case, Output, StateLimitExceeded, compile, load_corpus, parse, print_pattern
from headrace.lang.ecl.interpreter import interpreter_of
from headrace.spark import run_ecl_cases
from tests.lang.ecl.register_patterns import captured_by, make_case

CORPUS = Path(__file__).parents[2] / "corpus"
CASES = [case for path in sorted(CORPUS.glob("ecl*.toml")) for case in load_corpus(path)]


ENGINES: tuple[Literal["spark", "spark-stream"], ...] = ("spark", "spark-stream")


@pytest.mark.parametrize("engine", ENGINES)
def test_spark_gives_the_answers_of_the_whole_corpus(spark: Any, engine: Literal["spark", "spark-stream"]) -> None:
    assert len(CASES) >= 400
    assert [difference for difference in run_ecl_cases(spark, CASES, engine) if difference is not None] == []


def register_cases(seeds: range) -> list[Case]:
    """Random patterns that keep values, with the interpreter's answers."""
    cases: list[Case] = []
    for seed in seeds:
        pattern, events = make_case(seed)
        try:
            compile(pattern)
        except StateLimitExceeded:
            continue
        engine = interpreter_of(pattern)
        state, outputs = engine.start(events[0].time), []
        for event in events:
            state, pushed = engine.step(state, event)
            outputs.append(pushed)
        answers = (tuple(outputs), engine.status(state), captured_by(pattern, events))
        cases.append(Case(f"seed {seed}", print_pattern(pattern), tuple(events), *answers))
    return cases


def test_spark_and_interpreter_agree_on_patterns_that_keep_values(spark: Any) -> None:
    cases = register_cases(range(60))
    assert [difference for difference in run_ecl_cases(spark, cases, "spark-stream") if difference is not None] == []


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_spark_and_interpreter_agree_on_ten_thousand(spark: Any) -> None:
    """Half of them in batch, half as a stream."""
    engines = cycle(ENGINES)
    patterns = 0
    for first, engine in zip(range(1_000, 11_600, 200), engines, strict=False):
        cases = register_cases(range(first, first + 200))
        patterns += sum(bool(compile(parse(case.pattern)).registers) for case in cases)
        assert [difference for difference in run_ecl_cases(spark, cases, engine) if difference is not None] == []
    assert patterns >= 10_000


def test_wrong_answer_is_named_with_event_and_engine(spark: Any) -> None:
    case = next(case for case in CASES if case.outputs and case.outputs[0])
    wrong = replace(case, outputs=((Output("nobody", 0),), *case.outputs[1:]))
    (difference,) = run_ecl_cases(spark, [wrong])
    assert difference is not None
    assert f"{case.name}: spark: event 1 ({case.events[0].type}): expected nobody at 0 s" in difference
