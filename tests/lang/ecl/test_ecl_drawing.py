"""Drawings, and stepping through by hand."""

from __future__ import annotations

import shutil

import pytest

from headrace.lang.ecl import PatternError, build_machine, compile, draw_machine, draw_table, parse, parse_events, run_events
from headrace.lang.ecl.errors import DrawingError

TEXTS = [
    "repeat{push(x){do{accumulate{a,b}}unless{c}}}",
    "push(late){sequential{dep,fail{within 12 h{arr}}}}",
    "parallel{repeat{push(x){loop(1000){a}}},in(a)do{b} in(c)do{d}}",
    "in(a)do{parallel{a,b}} in(c)do{d}",
]


def test_table_shows_events_outputs_and_timers_on_its_edges() -> None:
    drawn = draw_table(compile(parse("repeat{push(late){sequential{dep,fail{within 12 h{arr}}}}}")), form="dot")
    assert 'u0s0 -> u0s1 [label="dep"];' in drawn
    assert 'u0s1 -> u0s0 [label="after 12 h / late"];' in drawn
    assert 'u0s1 -> u0s0 [label="arr"];' in drawn


def test_mermaid_shows_the_same() -> None:
    drawn = draw_table(compile(parse("repeat{push(x){sequential{a or b,c}}}")))
    assert drawn.startswith("flowchart LR\n")
    assert 'u0s0 -->|"a #124; b"| u0s1' in drawn
    assert 'u0s1 -->|"c / x"| u0s0' in drawn


def test_machine_shows_places_and_transitions() -> None:
    drawn = draw_machine(build_machine(parse("push(x){a}")), form="dot")
    assert 'label="ε / x"' in drawn
    assert 'label="success" shape=doublecircle' in drawn


@pytest.mark.parametrize("text", TEXTS[:4])
def test_every_form_of_every_pattern_is_drawn(text: str) -> None:
    pattern = parse(text)
    for form in ("mermaid", "dot"):
        assert draw_table(compile(pattern), form=form).count("\n") > 2
        if "1000" not in text:
            assert draw_machine(build_machine(pattern), form=form).count("\n") > 2


def test_condition_with_quotes_and_brackets_cannot_break_the_drawing() -> None:
    table = compile(parse("""push(x){<object ->> 'a' = '"] --> }' and object ->> 'b' <> '\\'>}"""))
    mermaid = draw_table(table)
    assert '"]' not in mermaid.split("-->|", 1)[1].split("|", 1)[0][1:-1]
    assert '\\"] --> }' in draw_table(table, form="dot")


def test_drawing_too_large_is_refused() -> None:
    with pytest.raises(DrawingError, match="allowed are 2000"):
        draw_machine(build_machine(parse("loop(3000){a}")))


def test_svg_needs_graphviz_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(DrawingError, match="install it, or draw as dot or mermaid"):
        draw_table(compile(parse("a")), form="svg")


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
def test_svg_is_drawn_by_graphviz() -> None:
    assert "<svg" in draw_table(compile(parse(TEXTS[0])), form="svg")


def test_run_steps_through_events() -> None:
    steps = run_events(parse("repeat{push(x){sequential{a,b}}}"), parse_events("a c b"))
    assert [(step.event.type, [o.token for o in step.outputs], step.changed) for step in steps] == [
        ("a", [], True),
        ("c", [], False),
        ("b", ["x"], True),
    ]


def test_run_reads_timed_events_as_json() -> None:
    steps = run_events(parse("push(x){after 2 s}"), parse_events('[["a", 0], ["b", 2.5]]'))
    assert [[(o.token, o.time) for o in step.outputs] for step in steps] == [[], [("x", 2_000_000)]]
    assert not steps[1].changed


def test_run_refuses_events_it_cannot_read() -> None:
    with pytest.raises(PatternError, match="cannot be read"):
        parse_events('[["a"]]')


def test_notebook_shows_pattern_and_edges_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    hostile = "repeat {push(x) {sequential {<object ->> 'a' = '</td><script>alert(1)</script>'>, b}}}"
    table = compile(parse(hostile))
    html = table._repr_html_()
    assert "<script" not in html and "&lt;script&gt;" in html
    assert " / x</td>" in html and "<pre>repeat" in html
    assert "<td>success</td>" in build_machine(parse("push(x){a}"))._repr_html_()
    steps = ", ".join(f"a{number}" for number in range(150))
    long = compile(parse(f"push(x) {{sequential {{{steps}}}}}"))._repr_html_()
    assert long.count("<tr>") <= 101 and "more</p>" in long


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
def test_notebook_shows_a_picture_where_graphviz_is() -> None:
    html = compile(parse("repeat {push(x) {sequential {<object ->> 'a' = '<script>'>, b}}}"))._repr_html_()
    assert html.count("<svg") == 1 and "<script" not in html and "<!DOCTYPE" not in html
