"""`headrace ecl`: a user's corpus, the analyses, drawings, stepping through."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from headrace.lang.ecl.corpus import ENGINES
from tests.cli.conftest import call

GOOD = "repeat {push(x) {do {accumulate {a, b}} unless {c}}}"
MODES = " ".join(f"in ({guard}) do {{repeat {{push(x) {{d}}}}}}" for guard in ("a", "b", "b or c"))
CORPUS = Path(__file__).parents[1] / "corpus"


@pytest.mark.parametrize("engine", ENGINES)
def test_corpus_holds_on_every_engine(engine: str) -> None:
    answer = call("ecl", "test", str(CORPUS / "ecl.toml"), "--engine", engine, "--json")
    assert answer.code == 0
    assert answer.json["as_expected"] == answer.json["cases"] > 50
    assert answer.json["engine"] == engine


@pytest.mark.parametrize("engine", ENGINES)
def test_case_that_differs_is_named(tmp_path: Path, engine: str) -> None:
    case = '[[case]]\nname = "{}"\npattern = "{}"\nevents = "b a"\noutputs = "{}"\nstatus = "success"\n'
    path = tmp_path / "cases.toml"
    path.write_text(
        case.format("good", "push(x){a}", ". x")
        + case.format("wrong", "push(x){a}", ". y")
        + case.format("no pattern", "push(", ". y")
    )
    answer = call("ecl", "test", str(path), "--engine", engine, "--json")
    assert (answer.code, answer.json["as_expected"]) == (6, 1)
    what = {one["name"]: one["what"] for one in answer.json["differ"]}
    assert what["wrong"] == f"{engine}: event 2 (a): expected y at 1 s, got x at 1 s"
    assert what["no pattern"].startswith("invalid pattern: line 1, column 6")
    assert "wrong, no pattern" in answer.error["message"]
    printed = call("ecl", "test", str(path), "--engine", engine)
    assert (printed.code, "2 differ" in printed.out) == (6, True)


def test_file_that_is_no_corpus_is_invalid(tmp_path: Path) -> None:
    assert call("ecl", "test", str(tmp_path / "missing.toml"), "--json").error["error"] == "CorpusError"
    assert call("ecl", "test", str(CORPUS / "ecl.toml"), "--engine", "abacus").code == 2


def test_check_passes_a_good_pattern_with_witnesses() -> None:
    answer = call("ecl", "check", GOOD, "--json")
    assert answer.code == 0
    findings = {one["check"]: (one["level"], one["witness"]) for one in answer.json["findings"]}
    assert findings == {"vacuity": ("ok", "a, b → x"), "triviality": ("ok", "other"), "liveness": ("ok", None)}
    assert answer.json["tokens"] == ["x"]


@pytest.mark.parametrize(
    ("pattern", "level", "check"),
    [
        ("push(x) {false}", "problem", "vacuity"),
        ("sequential {repeat(1) {push(x) {a}}, false}", "problem", "liveness"),
        ("push(x) {a}", "info", "liveness"),
        ("repeat {push(x) {true}}", "warning", "triviality"),
        (MODES, "warning", "mode guards"),
    ],
)
def test_check_finds_what_is_wrong(pattern: str, level: str, check: str) -> None:
    answer = call("ecl", "check", pattern, "--json")
    assert (check, level) in {(one["check"], one["level"]) for one in answer.json["findings"]}
    assert answer.code == (6 if level == "problem" else 0)
    if level == "warning":
        assert call("ecl", "check", pattern, "--strict").code == 6


def test_error_has_line_column_and_hint(tmp_path: Path) -> None:
    path = tmp_path / "bad.ecl"
    path.write_text("push(x) {\n  sequential {a, }\n}\n")
    for words in (["check"], ["deps"], ["draw"], ["run", "--events", "a"], ["compare", "a"]):
        answer = call("ecl", *words, f"@{path}")
        assert answer.code == 5
        assert "line 2, column 18" in answer.err and "hint:" in answer.err and f"in {path}" in answer.err
        lines = answer.err.splitlines()
        assert lines[2].index("^") == lines[1].index("}")
    assert call("ecl", "check", "@nowhere.ecl").code == 5
    assert "condition" in call("ecl", "check", "push(x) {<pg_sleep(1) = 1>}").err


def test_patterns_are_compared() -> None:
    same = call("ecl", "compare", "push(x) {select {a, b}}", "push(x) {b or a}", "--json")
    assert (same.code, same.json["relation"]) == (0, "equivalent")
    assert (
        call("ecl", "compare", "repeat {push(x) {a or b}}", "repeat {push(x) {a}}", "--json").json["relation"] == "a contains b"
    )
    printed = call("ecl", "compare", "repeat {push(x) {a}}", "repeat {push(x) {a or b}}").out
    assert "B contains A" in printed and "first difference" in printed
    different = call("ecl", "compare", "push(x) {a}", "push(y) {a}", "--json").json
    assert (different["relation"], different["outputs_a"], different["outputs_b"]) == ("different", ["x"], ["y"])


def test_dependencies_are_listed() -> None:
    [dependency] = call("ecl", "deps", "push(x) {within 5 s {sequential {a, <key = 'k'>}}}", "--json").json
    assert (dependency["token"], dependency["predicates"], dependency["timers"]) == ("x", ["a", "<key = 'k'>"], True)
    assert "yes" in call("ecl", "deps", "push(x) {within 5 s {a}}").out


@pytest.mark.parametrize("what", ["table", "machine"])
def test_pattern_is_drawn(tmp_path: Path, what: str) -> None:
    assert call("ecl", "draw", GOOD, "--what", what).out.startswith("flowchart LR")
    drawn = call("ecl", "draw", GOOD, "--what", what, "--as", "dot").out
    assert drawn.startswith("digraph") and "/ x" in drawn
    output = tmp_path / "drawing.dot"
    assert call("ecl", "draw", GOOD, "--what", what, "--as", "dot", "--output", str(output)).code == 0
    assert output.read_text().rstrip("\n") == drawn.rstrip("\n")
    svg = call("ecl", "draw", GOOD, "--what", what, "--as", "svg")
    assert "<svg" in svg.out if shutil.which("dot") else (svg.code, "Graphviz" in svg.err) == (1, True)


def test_run_steps_through() -> None:
    ran = call("ecl", "run", GOOD, "--events", "a c a b", "--json").json
    assert [(one["type"], one["outputs"], one["moved"]) for one in ran["steps"]] == [
        ("a", [], True), ("c", [], True), ("a", [], True), ("b", ["x"], True),
    ]  # fmt: skip
    assert (ran["waits_for"], ran["shortest"]) == (["a", "b"], "a, b → x"), "c changes nothing at the start"
    assert "shortest way to an output: b → x" in call("ecl", "run", GOOD, "--events", "a").out


def test_run_lets_time_go_on() -> None:
    pattern = "push(late) {do {after 5 s} unless {b}}"
    ran = call("ecl", "run", pattern, "--events", '[["a", 0]]', "--json").json
    assert (ran["deadline_s"], ran["steps"][0]["outputs"]) == (5, [])
    ran = call("ecl", "run", pattern, "--events", '[["a", 0]]', "--until", "7", "--json").json
    assert (ran["steps"][-1]["outputs"], ran["steps"][-1]["status"], ran["shortest"]) == (["late (at 5 s)"], "success", None)
    assert call("ecl", "run", pattern, "--events", "a b", "--until", "0.5").code == 5
    assert call("ecl", "run", pattern, "--events", '[["a"]]').code == 5
    shown = call("ecl", "run", "push(big) {<(object -> 'n')::int > 5>}", "--events", '[["a", 0, {"n": 1}], ["a", 1, {"n": 9}]]')
    assert "big" in shown.out


def test_run_shows_what_an_instance_keeps() -> None:
    pattern = "capture n = (object -> 'n')::int; repeat {push(x) {sequential {a as p, count(2, 5 s) {a}, count(2, 5 s) {b and <n > p.n>}}}}"
    events = '[["a", 0, {"n": 1}], ["a", 1, {}], ["a", 9, {}], ["a", 10, {}], ["b", 11, {"n": 2}]]'
    answer = call("ecl", "run", pattern, "--events", events, "--until", "20", "--json")
    kept = [step["captured"][0] for step in answer.json["steps"]]
    assert [one["p.n"] for one in kept] == [1] * 6
    # A window of two keeps one event, until it is five seconds old.
    assert [one["count(2, 5 s)"] for one in kept] == [0, 1, 1, 1, 1, 0]
    assert [one["count(2, 5 s) 2"] for one in kept] == [0, 0, 0, 0, 1, 0]
    assert "count(2, 5 s) = 1" in call("ecl", "run", pattern, "--events", events).out
