"""Every case of the corpus, on every engine of this room."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.lang.ecl import CorpusError, load_corpus, parse, run_case
from headrace.lang.ecl.corpus import ENGINES, EngineName
from headrace.lang.ecl.machine import is_of_the_paper

CORPUS = Path(__file__).parents[2] / "corpus"
CASES = [case for path in sorted(CORPUS.glob("ecl*.toml")) for case in load_corpus(path)]


@pytest.mark.parametrize("engine", ENGINES)
def test_engine_gives_the_answers_of_the_whole_corpus(engine: EngineName) -> None:
    cases = [case for case in CASES if engine != "machine" or is_of_the_paper(parse(case.pattern))]
    assert len(cases) > 400
    assert [difference for case in cases if (difference := run_case(case, engine)) is not None] == []


def test_corpus_is_large_and_names_are_unique() -> None:
    names = [case.name for case in CASES]
    assert len(names) >= 400
    assert len(set(names)) == len(names)


def test_wrong_answer_is_named_with_event_and_engine(tmp_path: Path) -> None:
    path = tmp_path / "ecl_wrong.toml"
    path.write_text('[[case]]\nname = "w"\npattern = "push(x){a}"\nevents = "b a"\noutputs = ". y"\nstatus = "success"\n')
    (case,) = load_corpus(path)
    assert run_case(case, "table") == "w: table: event 2 (a): expected y at 1 s, got x at 1 s"


def test_wrong_status_is_named(tmp_path: Path) -> None:
    path = tmp_path / "ecl_wrong.toml"
    path.write_text('[[case]]\nname = "w"\npattern = "push(x){a}"\nevents = "a"\noutputs = "x"\nstatus = "failure"\n')
    (case,) = load_corpus(path)
    assert run_case(case, "machine") == "w: machine: expected status failure, got success"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "no [[case]]"),
        ("x = 1", "no [[case]]"),
        ("[[case]\n", "at line 1"),
        ('[[case]]\nname = "n"', "case 1 (n): Object missing required field `pattern`"),
        (
            '[[case]]\nname="n"\npattern="a"\nevents="a a"\noutputs="."\nstatus="success"',
            "has 2 events and 1 outputs",
        ),
        ('[[case]]\nname="n"\npattern="a"\nevents="a"\noutputs="."\nstatus="done"', "Invalid enum value 'done'"),
        (
            '[[case]]\nname="n"\npattern="a"\nevents=[["a", 2], ["a", 1]]\noutputs=[[],[]]\nstatus="success"',
            "go back in time",
        ),
        (
            '[[case]]\nname="n"\npattern="a"\nevents=[["a", 0.0000001]]\noutputs=[[]]\nstatus="success"',
            "not a whole number of microseconds",
        ),
    ],
)
def test_invalid_corpus_is_rejected_with_file_and_case(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "ecl_bad.toml"
    path.write_text(text)
    with pytest.raises(CorpusError) as caught:
        load_corpus(path)
    assert problem in str(caught.value)
    assert "ecl_bad.toml" in str(caught.value)
