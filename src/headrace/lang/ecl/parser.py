"""Text → tree. Promises: a `Pattern` within the limits, or a `PatternError` with line, column and a hint.

The first call imports lark, so that whoever only steps tables does not load it.

Before lexing, a scan finds the conditions `<…>` and blanks their insides, and measures bracket depth. A condition holds `<` and `>` of
its own, so a regular expression cannot find its end. It ends at the first `>` outside strings and parentheses that is no part of a
longer operator and after which no operand can follow.

Named predicates come from `define name = predicate;` before the expression, or passed in as a mapping; a name may be used
for its predicate wherever an event type may be, and hides an event type of the same name."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.lang.ecl.errors import LIMITS, Limits, PatternError, check_size
from headrace.lang.ecl.registers import RegisterNames
from headrace.lang.ecl.tree import CONSTRUCTS, Match, Pattern, Predicate

if TYPE_CHECKING:
    from lark import Lark, Token, UnexpectedInput


# What may come after a condition in ECL; none of it can be the right side of a comparison.
_AFTER_CONDITION = re.compile(r"(?:\s|--[^\n]*)*(?:$|[,;})]|(?:and|or|as)\b)")
_STRING = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"")
_CAPTURE = re.compile(r"capture\s+[A-Za-z_][A-Za-z0-9_]*\s*=\s*")
_OPERATOR = re.compile(r"->>|->|#>>|#>|>=|<=|<>|@>|<@|=>")


@dataclass(frozen=True, slots=True)
class Scanned:
    """The text with blanked conditions, of the same length and lines, and what stood in each, by position."""

    text: str
    conditions: dict[int, str]


def line_column(text: str, at: int) -> tuple[int, int]:
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)


def scan(text: str, limits: Limits) -> Scanned:
    out: list[str] = []
    conditions: dict[int, str] = {}
    depth = at = 0
    while at < len(text):
        char = text[at]
        skipped = _skip(text, at)
        if skipped > at:
            out.append(text[at:skipped])
            at = skipped
            continue
        if (capture := _CAPTURE.match(text, at)) and depth == 0 and _starts_definition(text, at):
            begin, end = capture.end(), _capture_end(text, capture.end())
            inside = text[begin:end]
            conditions[begin] = inside
            # A condition to the grammar, of the same length.
            out.append(text[at:begin] + ("<" + re.sub(r"[^\n]", " ", inside[1:-1]) + ">" if len(inside) > 1 else inside))
            at = end
            continue
        if char == "<":
            end = _condition_end(text, at)
            inside = text[at + 1 : end]
            conditions[at] = inside
            out.append("<" + re.sub(r"[^\n]", " ", inside) + ">")
            at = end + 1
            continue
        depth += (char in "{(") - (char in "})")
        if depth > limits.depth_max:
            line, column = line_column(text, at)
            problem = f"nested deeper than allowed: over {depth - 1} levels, allowed are {limits.depth_max}"
            raise PatternError(problem, text=text, line=line, column=column)
        out.append(char)
        at += 1
    return Scanned("".join(out), conditions)


def _skip(text: str, at: int) -> int:
    """Past a comment or a quoted name, or `at` itself."""
    if text.startswith("--", at):
        end = text.find("\n", at)
        return len(text) if end < 0 else end
    if text[at] == '"':
        end = text.find('"', at + 1)
        return at if end < 0 else end + 1
    return at


def _starts_definition(text: str, at: int) -> bool:
    """Whether nothing, or the end of a definition, comes before."""
    before = re.sub(r"--[^\n]*", "", text[:at]).rstrip()
    return not before or before.endswith(";")


def _capture_end(text: str, start: int) -> int:
    """The end of a capture's value: the next semicolon outside strings."""
    at = start
    while at < len(text) and text[at] != ";":
        string = _STRING.match(text, at)
        at = string.end() if string else at + 1
    if at == len(text):
        line, column = line_column(text, start)
        raise PatternError("this capture has no end", text=text, line=line, column=column, hint="a capture ends with `;`")
    return start + len(text[start:at].rstrip())


def _condition_end(text: str, start: int) -> int:
    depth = 0
    at = start + 1
    while at < len(text):
        if string := _STRING.match(text, at):
            at = string.end()
        elif operator := _OPERATOR.match(text, at):
            at = operator.end()
        else:
            char = text[at]
            depth += (char in "([") - (char in ")]")
            if char == ">" and depth <= 0 and _AFTER_CONDITION.match(text, at + 1):
                return at
            at += 1
    line, column = line_column(text, start)
    hint = "a condition ends with `>`, followed by `,` `}` `)` `and` `or` or the end"
    raise PatternError("this condition has no end", text=text, line=line, column=column, hint=hint)


_SHOWN = {
    "NAME": "an event type",
    "QUOTED": "a quoted name",
    "CONDITION": "a <condition>",
    "DURATION": "a duration such as 10 s",
    "INT": "a number",
    "LBRACE": "{",
    "RBRACE": "}",
    "LPAR": "(",
    "RPAR": ")",
    "COMMA": ",",
    "SEMICOLON": ";",
    "EQUAL": "=",
    "SELECT_STAR": "select*",
    "DEFINE": "define",
    "$END": "the end",
}
_CONSTRUCT_NAMES = frozenset(word.upper() for word in CONSTRUCTS) - {"UNLESS"} | {"SELECT_STAR"}
_WORD_BEFORE = re.compile(r"([^\W\d]\w*)\s*$")


def parse(
    text: str,
    *,
    predicates: Mapping[str, str] | None = None,
    limits: Limits = LIMITS,
    registers: RegisterNames | None = None,
) -> Pattern:
    """The pattern a text means. `predicates` gives names their predicate texts, before the text's own definitions.

    `registers` are the names of a compiled pattern, for a predicate of its table."""
    from lark import UnexpectedInput

    from headrace.lang.ecl.tree_builder import Builder

    if len(text) > limits.text_chars_max:
        raise PatternError(f"the text has {len(text)} characters, allowed are {limits.text_chars_max}")
    names = {name: parse_predicate(body, limits=limits) for name, body in (predicates or {}).items()}
    scanned = scan(text, limits)
    try:
        tree = _grammar().parse(scanned.text)
    except UnexpectedInput as error:
        raise _explain(text, error) from None
    pattern = Builder(text, scanned.conditions, names, limits, registers).pattern(tree)
    check_size(pattern, limits)
    return pattern


def parse_predicate(text: str, *, limits: Limits = LIMITS, registers: RegisterNames | None = None) -> Predicate:
    """A predicate on its own; `registers` are the names of the compiled pattern that it is from."""
    pattern = parse(text, limits=limits, registers=registers)
    if not isinstance(pattern.expr, Match) or pattern.expr.label is not None or pattern.definitions:
        raise PatternError("expected a predicate, found an expression", text=text, hint="event types, <condition>, and/or/not")
    return pattern.expr.predicate


@lru_cache(maxsize=1)
def _grammar() -> Lark:
    from lark import Lark

    source = Path(__file__).with_name("grammar.lark").read_text(encoding="utf-8")
    return Lark(source, parser="lalr", maybe_placeholders=False)


def _explain(text: str, error: UnexpectedInput) -> PatternError:
    from lark import UnexpectedCharacters, UnexpectedToken

    if isinstance(error, UnexpectedToken) and error.token.type != "$END":
        at = error.token.start_pos or 0
        problem = f"unexpected {str(error.token)!r}"
        hint = _hint(text, at, error.token, set(error.accepts or error.expected))
    elif isinstance(error, UnexpectedCharacters):
        at = error.pos_in_stream or 0
        problem = f"unexpected character {text[at]!r}"
        hint = _expected(set(error.allowed or ()))
    else:
        at = len(text.rstrip())
        problem = "the pattern ends too early" if text.strip() else "the pattern is empty"
        hint = _expected(set(error.accepts or error.expected)) if isinstance(error, UnexpectedToken) else ""
    line, column = line_column(text, at)
    return PatternError(problem, text=text, line=line, column=column, hint=hint)


def _hint(text: str, at: int, token: Token, accepts: set[str]) -> str:
    before = _WORD_BEFORE.search(text[:at])
    # A misspelt construct reads as an event type; the error shows only at the bracket or number after it.
    if before and token.type in {"LBRACE", "LPAR", "DURATION", "INT"} and before[1] not in CONSTRUCTS:
        close = difflib.get_close_matches(before[1].lower(), [*CONSTRUCTS], n=1, cutoff=0.6)
        if close:
            return f"did you mean `{close[0]}`?"
    if token.type == "RBRACE" and text[:at].rstrip().endswith("{"):
        return "the list is empty; write at least one expression"
    if token.type == "RBRACE" and text[:at].rstrip().endswith(","):
        return "remove the comma before `}`"
    if token.type == "NAME":
        close = difflib.get_close_matches(token.lower(), sorted(n.lower() for n in accepts if n.isalpha()), n=1)
        if close:
            return f"did you mean `{close[0]}`?"
    if token.type == "DURATION" or (token.type == "INT" and "DURATION" in accepts):
        return "a duration needs a unit, as in 10 s; write a count in brackets, as in loop(3)"
    return _expected(accepts)


def _expected(accepts: set[str]) -> str:
    constructs = accepts >= _CONSTRUCT_NAMES
    rest = accepts - _CONSTRUCT_NAMES if constructs else accepts
    if constructs:
        return "expected an expression: an event type, a <condition>, or one of " + ", ".join(CONSTRUCTS)
    return "expected " + " or ".join(sorted(_SHOWN.get(name, name.lower()) for name in rest)) if rest else ""
