"""The examples and limits of the user guide, run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headrace.lang.ecl import Case, Event, Output, Status, parse, parse_events, run_case
from headrace.lang.ecl.compiler import STATE_LIMIT
from headrace.lang.ecl.corpus import ENGINES, EngineName, make_engine
from headrace.lang.ecl.engine import FIRINGS_MAX
from headrace.lang.ecl.errors import LIMITS
from headrace.lang.ecl.machine import is_of_the_paper
from headrace.lang.ecl.space import CONFIGURATIONS_MAX

GUIDE = (Path(__file__).parents[3] / "docs" / "ecl.md").read_text(encoding="utf-8")
EXAMPLE = re.compile(r" {4}pattern: (.+)\n {4}events: +(.+)\n {4}outputs: (.+)\n {4}status: +(\w+)\n")


def test_guide_has_examples() -> None:
    assert len(EXAMPLE.findall(GUIDE)) == GUIDE.count("    pattern: ") >= 10


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("example", EXAMPLE.findall(GUIDE), ids=lambda example: str(example)[:40])
def test_example_is_true(example: tuple[str, str, str, str], engine: EngineName) -> None:
    pattern, text, outputs, status = example
    if engine == "machine" and not is_of_the_paper(parse(pattern)):
        return
    events = parse_events(text)
    tokens = [() if word == "." else tuple(word.split(",")) for word in outputs.split()]
    answers = tuple(tuple(Output(token, event.time) for token in some) for event, some in zip(events, tokens, strict=True))
    difference = run_case(Case("example", pattern, events, answers, Status(status)), engine)
    # Outputs of timers have times of their own; the table of the guide shows their tokens only.
    assert difference is None or "after" in pattern or "within" in pattern, difference
    assert [tuple(output.token for output in some) for some in tokens_of(pattern, events, engine)] == tokens


def tokens_of(pattern: str, events: tuple[Event, ...], engine: EngineName) -> list[tuple[Output, ...]]:
    runner = make_engine(parse(pattern), engine)
    state, outputs = runner.start(events[0].time), []
    for event in events:
        state, pushed = runner.step(state, event)
        outputs.append(pushed)
    return outputs


def test_limits_in_the_guide_are_those_of_the_code() -> None:
    rows = dict(re.findall(r"\| ([^|\n]+) \| ([\d ]+)", GUIDE[GUIDE.index("## Limits") :]))
    shown = {name: int(number.replace(" ", "")) for name, number in rows.items()}
    assert shown == {
        "text": LIMITS.text_chars_max,
        "nesting": LIMITS.depth_max,
        "nodes": LIMITS.nodes_max,
        "expressions in a list": LIMITS.list_length_max,
        "N": LIMITS.times_max,
        "timers": LIMITS.timers_max,
        "definitions": LIMITS.definitions_max,
        "captures, labels": LIMITS.captures_max,
        "N of `count`, of `each`": LIMITS.count_times_max,
        "events in a row": LIMITS.chain_length_max,
        "timer firings in one call": FIRINGS_MAX,
        "states of a table": STATE_LIMIT,
        "configurations of an analysis": CONFIGURATIONS_MAX,
    }
