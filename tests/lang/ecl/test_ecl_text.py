"""Text and tree: what parses, what is refused and how it is explained, and what prints."""

from __future__ import annotations

import pytest

from headrace.core import parse_duration, print_duration
from headrace.core.errors import Invalid
from headrace.lang.ecl import PatternError, parse, print_pattern, tree as t
from headrace.lang.ecl.errors import Limits
from headrace.lang.ecl.parser import parse_predicate

S = 1_000_000


def refusal(text: str, **options: Limits) -> PatternError:
    with pytest.raises(PatternError) as caught:
        parse(text, **options)
    return caught.value


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a", t.Match(t.EventType("a"))),
        ("after 10 s", t.After(10 * S)),
        ("within 12h { a }", t.Within(43_200 * S, t.Match(t.EventType("a")))),
        ("select * {a}", t.SelectStar((t.Match(t.EventType("a")),))),
        ("loop(3){a}", t.Loop(t.Match(t.EventType("a")), 3)),
        ("persist{a}", t.Persist(t.Match(t.EventType("a")))),
        ("a and b or not c", t.Match(t.Or((t.And((t.EventType("a"), t.EventType("b"))), t.Not(t.EventType("c")))))),
        ("define", t.Match(t.EventType("define"))),
        ("in.flight", t.Match(t.EventType("in.flight"))),
        ("a -- comment\n or b", t.Match(t.Or((t.EventType("a"), t.EventType("b"))))),
        ("push(in){a}", t.Push("in", t.Match(t.EventType("a")))),
    ],
)
def test_text_means_tree(text: str, tree: t.Expr) -> None:
    assert parse(text).expr == tree


@pytest.mark.parametrize(
    ("text", "conditions"),
    [
        ("<(object ->> 'amount')::numeric > 1000>", ["(object ->> 'amount')::numeric > 1000"]),
        ("select{<object ->> 'a' > 'x'>, <key <> 'y'>}", ["object ->> 'a' > 'x'", "key <> 'y'"]),
        ("<1 > (object -> 'a')::int and 2 >= key::int> and c", ["1 > (object -> 'a')::int and 2 >= key::int"]),
        ("<object ->> 'x' = '> , }'>", ["object ->> 'x' = '> , }'"]),
        ("<(key > type)> or <object #>> '{a,b}' is null>", ["key > type", "object -> 'a' ->> 'b' is null"]),
        ("push(x){<object -> 'm' ->> 'n' > '3'>}", ["object -> 'm' ->> 'n' > '3'"]),
        ("<key>'a'>and<key\n>\n'b'\n>-- end", ["key > 'a'", "key > 'b'"]),
    ],
)
def test_condition_ends_where_no_operand_can_follow(text: str, conditions: list[str]) -> None:
    expr = parse(text).expr
    matches = [node for node in t.walk(expr) if isinstance(node, t.Match)]
    atoms = [atom for match in matches for atom in t.atoms(match.predicate)]
    texts = [atom.text for atom in atoms if isinstance(atom, t.Condition)]
    assert texts == conditions


def test_defined_names_stand_for_predicates_and_print_again() -> None:
    pattern = parse("define big = a or b; define none = not big; push(x){none}")
    assert pattern.expr == t.Push(
        "x", t.Match(t.Named("none", t.Not(t.Named("big", t.Or((t.EventType("a"), t.EventType("b")))))))
    )
    assert parse(print_pattern(pattern)) == pattern


def test_names_can_be_handed_in() -> None:
    pattern = parse("push(x){big}", predicates={"big": "a or b"})
    assert pattern == parse("define big = a or b; push(x){big}")
    assert parse(print_pattern(pattern), predicates={"big": "a or b"}) == pattern


def test_name_defined_twice_differently_is_refused() -> None:
    assert "'p' is defined twice" in str(refusal("define p = a; define p = b; p"))


def test_predicate_alone_refuses_expressions() -> None:
    assert parse_predicate("a and not b") == t.And((t.EventType("a"), t.Not(t.EventType("b"))))
    with pytest.raises(PatternError):
        parse_predicate("sequential{a}")


@pytest.mark.parametrize(
    ("text", "line", "column", "hint"),
    [
        ("", 1, 1, "expected an expression"),
        ("accumlate{a,b}", 1, 10, "did you mean `accumulate`?"),
        ("Repeat{a}", 1, 7, "did you mean `repeat`?"),
        ("repeet(3){a}", 1, 7, "did you mean `repeat`?"),
        ("withn 3 s {a}", 1, 7, "did you mean `within`?"),
        ("do{a}unles{b}", 1, 6, "did you mean `unless`?"),
        ("accumulate{}", 1, 12, "the list is empty"),
        ("accumulate{a,}", 1, 14, "remove the comma"),
        ("loop(0){a}", 1, 6, "write 1 or more"),
        ("after 10", 1, 7, "a duration needs a unit"),
        ("a\nand\n  %", 3, 3, "expected"),
        ("sequential{a,\n  b\n  c}", 3, 3, "expected"),
        ("push(x)a", 1, 8, "expected {"),
        ("in(a){b}", 1, 6, "expected do"),
        ("do{a}", 1, 6, "expected unless"),
        ("repeat{a", 1, 9, "expected"),
        ("<key > 'a'", 1, 1, "a condition ends with `>`"),
    ],
)
def test_refusal_names_line_column_and_hint(text: str, line: int, column: int, hint: str) -> None:
    error = refusal(text)
    assert (error.line, error.column) == (line, column)
    assert hint in error.hint
    assert isinstance(error, Invalid)
    assert error.sqlstate == "HR320"


def test_refusal_points_with_a_caret() -> None:
    shown = str(refusal("repeat{\n  push(x){acumulate{a}}}")).split("\n")
    assert shown[0] == "line 2, column 20: unexpected '{'"
    assert shown[2].index("^") == shown[1].index("acumulate{") + len("acumulate")


@pytest.mark.parametrize(
    ("text", "given", "allowed"),
    [
        ("a" * 70_000, "70000", "65536"),
        ("(" * 5_000 + "a" + ")" * 5_000, "64", "64"),
        ("repeat{" * 5_000 + "a" + "}" * 5_000, "64", "64"),
        ("not " * 10_000 + "a", "64", "64"),
        ("loop(1000001){a}", "1000001", "1000000"),
        (f"accumulate{{{','.join('a' * 257)}}}", "257", "256"),
        (f"parallel{{{','.join(['accumulate{' + ','.join('a' * 200) + '}'] * 11)}}}", "4412", "2000"),
        (f"parallel{{{','.join(['after 1 s'] * 61)}}}", "61", "60"),
        ("after 1 us", "1 us", "1 ms"),
        ("after 200000 d", "200000 d", "36500 d"),
        ("push(" + "x" * 300 + "){a}", "300", "255"),
    ],
)
def test_limit_names_given_and_allowed(text: str, given: str, allowed: str) -> None:
    message = str(refusal(text))
    assert given in message
    assert allowed in message


def test_limits_can_be_lowered() -> None:
    assert "allowed are 3" in str(refusal("accumulate{a,b,c,d}", limits=Limits(list_length_max=3)))


@pytest.mark.parametrize(
    ("text", "duration_us", "printed"),
    [
        ("10 s", 10 * S, "10 s"),
        ("10 minutes", 600 * S, "10 min"),
        ("12h", 43_200 * S, "12 h"),
        ("1d", 86_400 * S, "1 d"),
        ("2 w", 1_209_600 * S, "14 d"),
        ("1.5 s", 1_500_000, "1500 ms"),
        ("1h 30min", 5_400 * S, "90 min"),
        ("0.25ms", 250, "250 us"),
    ],
)
def test_duration_is_exact(text: str, duration_us: int, printed: str) -> None:
    assert parse_duration(text) == duration_us
    assert print_duration(duration_us) == printed
    assert parse_duration(printed) == duration_us


@pytest.mark.parametrize("text", ["10", "s", "1 parsec", "0.0000001 s", "", "1 s x"])
def test_bad_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"unit|duration|whole"):
        parse_duration(text)
