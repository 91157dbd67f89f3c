"""Conditions in patterns: sameness, the place of errors, and events with payloads end to end."""

from __future__ import annotations

import pytest
from ecl_strategies import P, Q, evaluate, event_lists, observed, patterns, payload_of
from hypothesis import HealthCheck, given, settings

from headrace.lang.condition import ConditionError, Json, Sample
from headrace.lang.ecl import (
    Event,
    Pattern,
    PatternError,
    Relation,
    compare,
    compile,
    from_json,
    parse,
    parse_events,
    print_pattern,
    run_events,
    to_json,
)
from headrace.lang.ecl.corpus import ENGINES, EngineName, make_engine
from headrace.lang.ecl.engine import evaluate_condition
from headrace.lang.ecl.table import TableEngine

BIG = "<(object -> 'n')::int > 3>"
SPELLINGS = (BIG, "< ( OBJECT->'n' )::INT>3 >", "<cast(object -> 'n' as int)\n > 3>", "<((object #> '{n}')::int > (3))>")
KNOWN_TRUE, KNOWN_FALSE = {"n": 5}, {"n": 3}
UNKNOWN = ({}, {"n": None}, {"n": "5"}, {"n": 2**31}, [5], 5, None)


def refusal(text: str) -> PatternError:
    with pytest.raises(PatternError) as caught:
        parse(text)
    return caught.value


def fires(predicate: str, payload: Json, engine: EngineName = "table", type_: str = "a") -> bool:
    """Whether one event of the type, with the payload, satisfies the predicate."""
    runner = make_engine(parse(f"push(x){{{predicate}}}"), engine)
    _, outputs = runner.step(runner.start(0), Event(type_, 0, Sample(payload, type_)))
    return bool(outputs)


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_spellings_of_a_condition_are_one(spelling: str) -> None:
    table = compile(parse(f"accumulate{{{BIG},{spelling}}}"))
    assert len(table.predicates) == 1
    texts = {to_json(compile(parse(f"push(x){{{text}}}"))) for text in (BIG, spelling)}
    assert len(texts) == 1


def test_conditions_are_compared_by_meaning_where_they_compare_with_constants() -> None:
    same, same_sum, stricter = "<(object -> 'n')::int >= 4>", "<(object -> 'n')::int + 0 >= 4>", "<(object -> 'n')::int > 4>"
    relations = [
        compare(parse(f"repeat {{push(x) {{{BIG}}}}}"), parse(f"repeat {{push(x) {{{text}}}}}")).relation
        for text in (same, same_sum, stricter)
    ]
    assert relations == [Relation.EQUIVALENT, Relation.DIFFERENT, Relation.A_CONTAINS_B]


def test_condition_prints_in_its_canonical_text() -> None:
    assert [print_pattern(parse(spelling)) for spelling in SPELLINGS] == [BIG] * len(SPELLINGS)


@pytest.mark.parametrize(
    ("text", "at", "reason", "hint"),
    [
        ("<p > 1>", "p >", "unknown name p", "allowed: object, headers"),
        ("push(x){a and <(object -> 'n')::regclass = 1>}", "regclass", "a cast to regclass", "casts to int"),
        ("repeat{\n  a and\n  <key = 'k'\n    and q = 2>}", "q =", "unknown name q", "allowed: object"),
        ("a\nor <\nkey = 1>", "1>", "text and integer cannot be compared", "values of one type"),
        ("select{<key = 'k'>, <key = 'k' and>}", ">}", "the end of the text where a value should be", "allowed: a value"),
        ("define big = <(object -> 'n')::int > nine>; big", "nine", "unknown name nine", "allowed: object"),
        ("a -- <ö>\nand <key = 'ö' and k = 1>", "k = 1", "unknown name k", "allowed: object"),
        ("<key = 'open>", "'open", "the text literal has no end", "with '' for a quote"),
    ],
)
def test_error_in_a_condition_points_into_the_pattern(text: str, at: str, reason: str, hint: str) -> None:
    error = refusal(text)
    before = text[: text.index(at)]
    assert (error.line, error.column) == (before.count("\n") + 1, len(before) - before.rfind("\n"))
    assert error.problem == f"the condition is not valid: {reason}"
    assert hint in error.hint
    assert isinstance(error.__cause__, ConditionError)


def test_error_in_a_condition_is_told_once() -> None:
    shown = str(refusal("sequential{a,\n  <(object -> 'n')::money > 3>}")).split("\n")
    assert shown[0] == "line 2, column 21: the condition is not valid: a cast to money"
    assert shown[2].index("^") == shown[1].index("money")
    assert shown[3].startswith("hint: allowed: casts to int")
    assert len(shown) == 4


def test_empty_condition_is_refused_at_its_bracket() -> None:
    error = refusal("a or < >")
    assert (error.column, error.problem) == (6, "the condition is empty")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("predicate", "when_true", "when_false", "when_unknown"),
    [
        (BIG, True, False, False),
        (f"not {BIG}", False, True, False),
        (f"not not {BIG}", True, False, False),
        (f"{BIG} or not {BIG}", True, True, False),
        (f"{BIG} and not {BIG}", False, False, False),
        (f"not ({BIG} and not {BIG})", True, True, False),
        (f"a or {BIG}", True, True, True),
        (f"b or {BIG}", True, False, False),
        (f"not (b and {BIG})", True, True, True),
        (f"not (a and {BIG})", False, True, False),
        (f"not (b or {BIG})", False, True, False),
        ("<(object -> 'n')::int > 3 is not true>", False, True, True),
        ("not <(object -> 'n')::int > 3 is unknown>", True, True, False),
    ],
)
def test_unknown_counts_as_false_for_the_whole_predicate(
    predicate: str, when_true: bool, when_false: bool, when_unknown: bool, engine: EngineName
) -> None:
    assert fires(predicate, KNOWN_TRUE, engine) is when_true
    assert fires(predicate, KNOWN_FALSE, engine) is when_false
    assert [fires(predicate, payload, engine) for payload in UNKNOWN] == [when_unknown] * len(UNKNOWN)


def test_condition_sees_type_key_headers_and_time() -> None:
    event = parse_events('[["order.paid", 10]]')[0]
    text = "type like 'order.%' and key is null and emitted_at = timestamptz '1970-01-01T00:00:10Z'"
    assert evaluate_condition(text, event.subject) is True
    sample = Sample({}, "a", "k7", {"tenant": "t1"})
    assert evaluate_condition("key = 'k7' and headers ->> 'tenant' = 't1'", sample) is True


def test_run_takes_payloads_with_exact_numbers() -> None:
    pattern = parse("repeat{push(x){sequential{<object ->> 'n' = '1.10'>, not <(object -> 'n')::int > 3>}}}")
    steps = run_events(pattern, parse_events('[["a", 0, {"n": 1.1}], ["a", 1, {"n": 1.10}], ["a", 2], ["a", 3, {"n": 3}]]'))
    assert [(step.changed, [o.token for o in step.outputs]) for step in steps] == [
        (False, []),
        (True, []),
        (False, []),
        (True, ["x"]),
    ]


def test_run_refuses_a_time_beyond_the_calendar() -> None:
    with pytest.raises(PatternError, match="beyond the years 1 to 9999"):
        parse_events('[["a", 1e15]]')


def test_table_from_json_evaluates_the_same_conditions() -> None:
    text = f"define big = {BIG}; define small = not big; parallel{{repeat{{push(b){{big}}}},repeat{{push(s){{small}}}}}}"
    table = from_json(to_json(compile(parse(text))))
    engine = TableEngine(table)
    state = engine.start(0)
    pushed: list[list[str]] = []
    for payload in (KNOWN_TRUE, KNOWN_FALSE, {}):
        state, outputs = engine.step(state, Event("a", 0, Sample(payload)))
        pushed.append([output.token for output in outputs])
    assert pushed == [["b"], ["s"], []]


@pytest.mark.parametrize("engine", ENGINES)
def test_evaluator_can_be_handed_in(engine: EngineName) -> None:
    asked: list[tuple[str, object]] = []

    def evaluator(text: str, subject: object) -> bool:
        asked.append((text, subject))
        return True

    runner = make_engine(parse(f"push(x){{a and {BIG}}}"), engine, evaluator)
    _, outputs = runner.step(runner.start(0), Event("a", 0, "opaque"))
    assert [output.token for output in outputs] == ["x"]
    assert set(asked) == {(BIG[1:-1], "opaque")}


@given(patterns(), event_lists())
@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
def test_language_and_handed_in_truths_agree_on_every_engine(pattern: Pattern, events: list[Event]) -> None:
    real = [Event(event.type, event.time, Sample(payload_of(truths_of(event)), event.type)) for event in events]
    for engine in ENGINES:
        expected = observed(make_engine(pattern, engine, evaluate), events)
        assert observed(make_engine(pattern, engine), real) == expected


def truths_of(event: Event) -> dict[str, bool | None]:
    assert isinstance(event.subject, dict)
    return event.subject


@pytest.mark.parametrize("truth", [True, False, None])
def test_payloads_of_the_random_tests_have_the_truths_they_stand_for(truth: bool | None) -> None:
    sample = Sample(payload_of({P: truth, Q: truth}))
    assert (evaluate_condition(P, sample), evaluate_condition(Q, sample)) == (truth, truth)
