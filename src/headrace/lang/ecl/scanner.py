"""Before lexing: finds the conditions `<…>` and blanks their insides, and measures bracket depth.

A condition holds `<` and `>` of its own, so a regular expression cannot find its end. It ends at the first `>`
outside strings and parentheses that is no part of a longer operator and after which no operand can follow."""

from __future__ import annotations

import re
from dataclasses import dataclass

from headrace.lang.ecl.errors import PatternError
from headrace.lang.ecl.limits import Limits

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
