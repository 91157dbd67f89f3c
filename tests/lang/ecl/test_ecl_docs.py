"""The examples and limits of the user guide, run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headrace.lang.ecl import load_corpus, run_case
from headrace.lang.ecl.compiler import STATE_LIMIT
from headrace.lang.ecl.corpus import ENGINES, EngineName
from headrace.lang.ecl.events import FIRINGS_MAX
from headrace.lang.ecl.limits import LIMITS
from headrace.lang.ecl.space import CONFIGURATIONS_MAX

GUIDE = (Path(__file__).parents[3] / "docs" / "ecl.md").read_text(encoding="utf-8")
EXAMPLE = re.compile(r" {4}pattern: (.+)\n {4}events: +(.+)\n {4}outputs: (.+)\n {4}status: +(\w+)\n")


def test_guide_has_examples() -> None:
    assert len(EXAMPLE.findall(GUIDE)) == GUIDE.count("    pattern: ") >= 10


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("example", EXAMPLE.findall(GUIDE), ids=lambda example: str(example)[:40])
def test_example_is_true(tmp_path: Path, example: tuple[str, str, str, str], engine: EngineName) -> None:
    path = tmp_path / "example.toml"
    lines = [f"{key} = '{value}'" for key, value in zip(("pattern", "events", "outputs", "status"), example, strict=True)]
    path.write_text("\n".join(["[[case]]", "name = 'example'", *lines]))
    assert run_case(load_corpus(path)[0], engine) is None


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
        "timer firings in one call": FIRINGS_MAX,
        "states of a table": STATE_LIMIT,
        "configurations of an analysis": CONFIGURATIONS_MAX,
    }
