"""Text → tokens with their places. Only the tokens of the language are admitted; all else is rejected here.

Reads operators as PostgreSQL does (the longest run, minus trailing signs), so `=!-1` is one unknown operator and
`->-1` is two known ones.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from headrace.lang.condition.errors import Diagnostic
from headrace.lang.condition.limits import TEXT_CHARS_MAX

OPERATORS: Final = (
    "::", "->>", "->", "#>>", "#>", "?", "=", "<>", "!=", "<=", ">=", "<", ">", "~", "!~", "+", "-", "*", "/", "%",
)  # fmt: skip
_TOKENS_ALLOWED: Final = "names, numbers, 'text', parentheses, commas and the operators " + " ".join(OPERATORS)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DOTTED = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\.[A-Za-z_][A-Za-z0-9_]*")
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]*)?|\.[0-9]+")
_OPERATOR_RUN = re.compile(r"[-+*/<>=~!@#%^&|`?]+")
_SPACE = re.compile(r"[ \t\r\n]+")
# PostgreSQL lets an operator end in a sign only if one of these is in it.
_SIGN_KEEPERS = frozenset("~!@#%^&|`?")
_STRING_PREFIXES = frozenset("ebxnu")


@dataclass(frozen=True, slots=True)
class Token:
    """kind: name, dotted, number, string, operator, mark or end. `text` is folded for names and unquoted for strings.

    A dotted name is that of a register: `t.amount`."""

    kind: str
    text: str
    at: int


def tokenize(text: str, *, dotted: bool = False) -> list[Token]:
    """All tokens of the text, the last one of kind `end`. Only patterns have dotted names."""
    if len(text) > TEXT_CHARS_MAX:
        raise Diagnostic(TEXT_CHARS_MAX, f"the text has {len(text)} characters", f"{TEXT_CHARS_MAX} characters")
    tokens: list[Token] = []
    at = 0
    while at < len(text):
        if space := _SPACE.match(text, at):
            at = space.end()
            continue
        if dotted and (name := _DOTTED.match(text, at)):
            token, at = Token("dotted", name.group().lower(), at), name.end()
        else:
            token, at = _read_token(text, at)
        tokens.append(token)
    tokens.append(Token("end", "", len(text)))
    return tokens


def _read_token(text: str, at: int) -> tuple[Token, int]:
    char = text[at]
    if char == "'":
        return _read_string(text, at)
    if char in "(),":
        return Token("mark", char, at), at + 1
    if text.startswith("::", at):
        return Token("operator", "::", at), at + 2
    if name := _NAME.match(text, at):
        return _read_name(text, name)
    if number := _NUMBER.match(text, at):
        return _read_number(text, number)
    if run := _OPERATOR_RUN.match(text, at):
        return _read_operator(run)
    raise Diagnostic(at, f"character {_describe(char)} is not part of the language", _TOKENS_ALLOWED)


def _describe(char: str) -> str:
    return f"{char!r}" if char.isprintable() and char.isascii() else f"U+{ord(char):04X}"


def _read_string(text: str, at: int) -> tuple[Token, int]:
    end = at + 1
    while True:
        end = text.find("'", end)
        if end < 0:
            raise Diagnostic(at, "the text literal has no end", "'text', with '' for a quote inside")
        if text[end + 1 : end + 2] != "'":
            break
        end += 2
    value = text[at + 1 : end].replace("''", "'")
    for char in value:
        # PostgreSQL's text holds neither, so no event could ever be equal to it.
        if char == "\0" or "\ud800" <= char <= "\udfff":
            raise Diagnostic(at, f"the text literal holds {_describe(char)}", "any character but U+0000 and lone surrogates")
    return Token("string", value, at), end + 1


def _read_name(text: str, name: re.Match[str]) -> tuple[Token, int]:
    folded, end = name.group().lower(), name.end()
    after = text[end : end + 1]
    if (after == "'" and folded in _STRING_PREFIXES) or text[end : end + 2] in ("&'", '&"'):
        raise Diagnostic(
            name.start(), f"{name.group()}'…' is a special kind of literal", "plain 'text', with '' for a quote inside"
        )
    if after and not after.isascii():
        raise Diagnostic(end, f"character {_describe(after)} in a name", "ASCII letters, digits and _ in names")
    return Token("name", folded, name.start()), end


def _read_number(text: str, number: re.Match[str]) -> tuple[Token, int]:
    end = number.end()
    if _NAME.match(text, end) or text[end : end + 1] == ".":
        raise Diagnostic(end, "this is not a decimal number", "digits with at most one point, such as 1000 or 0.5")
    return Token("number", number.group(), number.start()), end


def _read_operator(run: re.Match[str]) -> tuple[Token, int]:
    operator = run.group()
    for opening in ("--", "/*"):
        if opening in operator:
            raise Diagnostic(run.start() + operator.index(opening), "comments are not part of a condition", "the condition alone")
    while len(operator) > 1 and operator[-1] in "+-" and not _SIGN_KEEPERS & set(operator):
        operator = operator[:-1]
    if operator not in OPERATORS:
        raise Diagnostic(run.start(), f"unknown operator {operator}", "the operators " + " ".join(OPERATORS))
    return Token("operator", operator, run.start()), run.start() + len(operator)
