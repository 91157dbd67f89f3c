"""Two conditions are compared by meaning. What is claimed of all events is checked on many; an example was evaluated."""

from __future__ import annotations

import itertools
from random import Random

import pytest

from headrace.lang.condition import Difference, Sample, compare_conditions, describe_difference, parse, to_python

V, C, N = "(object -> 'v')::int", "object ->> 'c'", "(object -> 'n')::numeric"


@pytest.mark.parametrize(
    ("old", "new", "difference"),
    [
        (f"{V} > 5", f"{V} >= 6", "equivalent"),
        (f"{V} > 5", f"{V} > 10", "stricter"),
        (f"{V} > 5", f"{V} > 4.5", "looser"),
        (f"{N} > 5", f"{N} >= 6", "stricter"),
        (f"{V} between 1 and 5", f"{V} > 3", "different"),
        (f"not ({V} > 5)", f"{V} <= 5", "equivalent"),
        (f"not ({V} > 5)", f"({V} > 5) is not true", "looser"),
        (f"{C} in ('a', 'b')", f"{C} = 'a' or {C} = 'b'", "equivalent"),
        (f"{C} <> 'a'", f"{C} is distinct from 'a'", "looser"),
        (f"{C} > 'a' and {C} < 'b'", f"{C} > 'a'", "looser"),
        (f"{C} like 'a%'", f"{C} like 'a%' and {N} < 1.5", "stricter"),
        (f"{C} like 'a%' or {V} = 1", f"{V} = 1 or {C} like 'a%'", "equivalent"),
        (f"{C} like 'a%'", f"starts_with({C}, 'a')", "undecided"),
        (f"{V} + 1 > 5", f"{V} > 4", "undecided"),
        ("key = 'x'", "key in ('x', 'y')", "looser"),
        ("(object -> 'b')::boolean", "(object -> 'b')::boolean is true", "equivalent"),
        ("(object -> 'b')::boolean", "(object -> 'b')::boolean is not false", "looser"),
        (
            "(object ->> 't')::timestamptz > '2026-01-01T00:00:00Z'",
            "(object ->> 't')::timestamptz > '2026-02-01T00:00:00Z'",
            "stricter",
        ),
        ("emitted_at > '2026-01-01T00:00:00Z'", "emitted_at >= '2026-01-01T00:00:00Z'", "looser"),
        ("object ? 'x'", "object ? 'x' and object ? 'y'", "stricter"),
        ("object -> 'a' ->> 'b' = '1'", "object -> 'a' ->> 'b' = '2'", "different"),
        ("true", "false", "stricter"),
    ],
)
def test_difference(old: str, new: str, difference: str) -> None:
    comparison = compare_conditions(parse(old), parse(new))
    assert comparison.difference == difference
    for sample, matches in ((comparison.only_old, (True, False)), (comparison.only_new, (False, True))):
        if sample is not None:
            assert (to_python(parse(old))(sample) is True, to_python(parse(new))(sample) is True) == matches


def test_difference_is_told_with_an_event() -> None:
    assert (
        describe_difference(compare_conditions(parse(f"{V} > 5"), parse(f"{V} > 10"))) == 'stricter: {"v": 6} no longer matches'
    )
    assert describe_difference(compare_conditions(parse(f"{V} + 1 > 5"), parse(f"{V} > 4"))) is None


def test_too_many_combinations_are_undecided_and_do_not_take_for_ever() -> None:
    clauses = " and ".join(f"(object -> 'f{number}')::int > {number}" for number in range(30))
    assert compare_conditions(parse(clauses), parse(f"{clauses} and {V} > 1")).difference is Difference.UNDECIDED


def random_condition(random: Random, depth: int = 2) -> str:
    if depth == 0 or random.random() < 0.3:
        operator, number = random.choice(["<", "<=", "=", "<>", ">=", ">"]), random.randint(0, 4)
        return random.choice(
            [
                f"{V} {operator} {number}",
                f"{N} {operator} {number}.5",
                f"{C} {operator} '{random.choice('abc')}'",
                f"{V} is null",
                f"{C} in ('a', '{random.choice('bcd')}')",
                f"{V} between {number} and {number + 2}",
                f"{C} like '{random.choice('ab')}%'",
            ]
        )
    word = random.choice(["and", "or", "not"])
    if word == "not":
        return f"not ({random_condition(random, depth - 1)})"
    return f"({random_condition(random, depth - 1)} {word} {random_condition(random, depth - 1)})"


EVENTS = [
    Sample({name: value for name, value in (("v", v), ("n", n), ("c", c)) if value is not None})
    for v, n, c in itertools.product(
        [None, -1, 0, 1, 2, 3, 4, 5, 6, 7], [None, 0, 0.5, 1, 2, 3.5, 9], [None, "", "a", "ab", "b", "c", "d"]
    )
]


def test_claims_hold_on_every_event_of_random_conditions() -> None:
    claims = 0
    for seed in range(150):
        random = Random(seed)
        old, new = parse(random_condition(random)), parse(random_condition(random))
        difference = compare_conditions(old, new).difference
        pairs = {(to_python(old)(event) is True, to_python(new)(event) is True) for event in EVENTS}
        if difference in (Difference.EQUIVALENT, Difference.STRICTER):
            assert (False, True) not in pairs, f"seed {seed}: {old.text} | {new.text}"
        if difference in (Difference.EQUIVALENT, Difference.LOOSER):
            assert (True, False) not in pairs, f"seed {seed}: {old.text} | {new.text}"
        claims += difference is not Difference.UNDECIDED
    assert claims > 100
