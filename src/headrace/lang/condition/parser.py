"""Text → tree: a lexer that admits only the tokens of the language, and a precedence parser with PostgreSQL's own levels.

The lexer reads operators as PostgreSQL does (the longest run, minus trailing signs), so `=!-1` is one unknown operator and
`->-1` is two known ones.

The levels, from loose to tight: or, and, not, is, comparison, between/in/like, other operators (-> ->> #> #>> ? ~
!~), + -, * / %, sign, ::. Comparison, between/in/like and is do not chain, as in PostgreSQL: `a = b = c` is rejected."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from headrace.lang.condition import checker as check
from headrace.lang.condition.checker import JsonPath, Operand
from headrace.lang.condition.errors import DEPTH_MAX, NESTING_MAX, NODES_MAX, TEXT_CHARS_MAX, Diagnostic
from headrace.lang.condition.tree import Between, Compare, Constant, Extraction, Field, In, Is, Junction, Node, Not, Type
from headrace.lang.nodes import walk

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


OR, AND, NOT, IS, COMPARE, RANGE, OTHER, SUM, PRODUCT, SIGN, CAST = range(1, 12)
_NO_CHAIN: Final = frozenset({IS, COMPARE, RANGE})
_OPERATOR_LEVELS: Final = {
    **dict.fromkeys(("=", "<>", "!=", "<", "<=", ">", ">="), COMPARE),
    **dict.fromkeys(("->", "->>", "#>", "#>>", "?", "~", "!~"), OTHER),
    **dict.fromkeys(("+", "-"), SUM),
    **dict.fromkeys(("*", "/", "%"), PRODUCT),
    "::": CAST,
}
_WORD_LEVELS: Final = {"or": OR, "and": AND, "is": IS, "between": RANGE, "in": RANGE, "like": RANGE, "ilike": RANGE}
_NAMES_ALLOWED: Final = "object, headers, type, key, emitted_at, true, false, and the functions " + ", ".join(check.FUNCTIONS)
_COLUMNS: Final[dict[str, Node | JsonPath]] = {
    "object": JsonPath("object", ()),
    "headers": JsonPath("headers", ()),
    "type": Field("type", (), Extraction.TEXT),
    "key": Field("key", (), Extraction.TEXT),
    "emitted_at": Field("emitted_at", (), Extraction.COLUMN),
    "true": Constant(True, Type.BOOLEAN),
    "false": Constant(False, Type.BOOLEAN),
}
_RESERVED: Final = frozenset(_WORD_LEVELS) | {"not", "null", "distinct", "from", "unknown", "as", "cast"}


class Names(Protocol):
    """Names that a pattern adds to the language."""

    @property
    def values(self) -> Mapping[str, Node]:
        """Values of the event with a name of their own."""
        ...

    def find_register(self, label: str, name: str, argument: str | None) -> Field | str:
        """The register `label.name` or `label.name(argument)`; or else what is wrong with it."""
        ...


def parse_tree(text: str, names: Names | None = None) -> Node:
    """The checked tree of the text. Raises Diagnostic."""
    tree = check.require_type(parse_operand(text, names), Type.BOOLEAN, "the condition")
    _check_size(tree)
    return tree


def parse_operand(text: str, names: Names | None = None) -> Operand:
    """The operand a text means, of whatever type. Raises Diagnostic."""
    parser = _Parser(tokenize(text, dotted=names is not None), names)
    operand = parser.expression(0)
    if parser.token.kind != "end":
        raise Diagnostic(parser.token.at, f"{parser.describe()} does not belong here", "an operator, and, or, or the end")
    if not isinstance(operand.value, JsonPath):
        _check_size(operand.value)
    return operand


def _check_size(tree: Node) -> None:
    nodes = deepest = 0
    for _, depth in walk(tree):
        nodes += 1
        deepest = max(deepest, depth)
    if nodes > NODES_MAX:
        raise Diagnostic(0, f"the condition has {nodes} nodes", f"{NODES_MAX} nodes")
    if deepest > DEPTH_MAX:
        raise Diagnostic(0, f"the condition is {deepest} levels deep", f"{DEPTH_MAX} levels")


class _Parser:
    def __init__(self, tokens: list[Token], names: Names | None) -> None:
        self.tokens = tokens
        self.names = names
        self.index = 0
        self.depth = 0

    @property
    def token(self) -> Token:
        return self.tokens[self.index]

    def describe(self) -> str:
        return {"end": "the end of the text", "string": "a text literal"}.get(self.token.kind, self.token.text)

    def advance(self) -> Token:
        token = self.token
        self.index += token.kind != "end"
        return token

    def accept(self, text: str) -> bool:
        """Passes a word or a mark, if it is the next token."""
        accepted = self.token.kind in ("name", "mark") and self.token.text == text
        self.index += accepted
        return accepted

    def expect(self, text: str) -> None:
        if not self.accept(text):
            raise Diagnostic(self.token.at, f"{text} is missing before {self.describe()}", f"{text} here")

    def expression(self, min_level: int) -> Operand:
        """An expression whose operators all bind tighter than the level."""
        self.depth += 1
        if self.depth > NESTING_MAX:
            raise Diagnostic(
                self.token.at, f"the text is nested more than {NESTING_MAX} deep", f"{NESTING_MAX} levels of nesting"
            )
        if min_level >= NOT and self.token.kind == "name" and self.token.text == "not":
            raise Diagnostic(self.token.at, "not cannot follow an operator", "parentheses around not …")
        left = self.prefix()
        max_level, left_depth = CAST, 0
        while (level := self.infix_level()) > min_level:
            if level > max_level or (level == max_level and level in _NO_CHAIN):
                reason = f"{self.describe()} cannot follow without parentheses"
                raise Diagnostic(self.token.at, reason, "parentheses around one of the two")
            left = self.infix(left, level)
            max_level = level
            # Sums, products and casts nest to the left: each one deepens the tree, but not the recursion.
            left_depth += level >= SUM
            if left_depth > DEPTH_MAX:
                raise Diagnostic(self.token.at, f"the condition is more than {DEPTH_MAX} levels deep", f"{DEPTH_MAX} levels")
        self.depth -= 1
        return left

    def infix_level(self) -> int:
        token = self.token
        if token.kind == "operator":
            return _OPERATOR_LEVELS[token.text]
        if token.kind != "name":
            return 0
        following = self.tokens[self.index + 1] if token.text == "not" else token
        if token.text == "not":
            return RANGE if following.text in ("between", "in", "like", "ilike") and following.kind == "name" else 0
        return _WORD_LEVELS.get(token.text, 0)

    def prefix(self) -> Operand:
        token = self.token
        if token.kind == "number":
            self.advance()
            return Operand(check.number_constant(token.text, token.at), token.at)
        if token.kind == "string":
            self.advance()
            return Operand(Constant(token.text, Type.TEXT, token.at), token.at)
        if token.kind == "name":
            return self.name_expression()
        if token.kind == "dotted":
            return self.register()
        if self.accept("("):
            inner = self.expression(0)
            self.expect(")")
            return Operand(inner.value, token.at)
        if token.kind == "operator" and token.text in ("-", "+"):
            self.advance()
            operand = self.expression(SIGN)
            return Operand(check.apply_sign(token.text, operand), token.at)
        raise Diagnostic(token.at, f"{self.describe()} where a value should be", f"a value: a number, 'text', {_NAMES_ALLOWED}")

    def name_expression(self) -> Operand:
        token = self.advance()
        if token.text == "not":
            operand = self.expression(NOT - 1)
            return Operand(Not(check.require_type(operand, Type.BOOLEAN, "the operand of not")), token.at)
        if token.text == "timestamptz" and self.token.kind == "string":
            literal = self.advance()
            return Operand(check.moment_constant(literal.text, literal.at), token.at)
        if token.text == "cast" and self.accept("("):
            operand = self.expression(0)
            self.expect("as")
            result = check.cast(operand, self.type_name(), token.at)
            self.expect(")")
            return Operand(result.value, token.at)
        if token.text in check.FUNCTIONS and self.accept("("):
            return Operand(check.call(token.text, token.at, self.arguments()), token.at)
        if token.text in _COLUMNS:
            return Operand(_COLUMNS[token.text], token.at)
        if self.names is not None and token.text in self.names.values:
            return Operand(self.names.values[token.text], token.at)
        if token.text == "null":
            raise Diagnostic(token.at, "null as a value", "is null, is not null")
        kind = "function" if self.token.text == "(" and token.text not in _RESERVED else "name"
        raise Diagnostic(token.at, f"unknown {kind} {token.text[:60]}", _NAMES_ALLOWED)

    def register(self) -> Operand:
        token = self.advance()
        assert self.names is not None
        label, name = token.text.split(".")
        argument: str | None = None
        if self.accept("("):
            argument = self.advance().text
            self.expect(")")
        register = self.names.find_register(label, name, argument)
        if isinstance(register, str):
            raise Diagnostic(token.at, register, "label.capture, and for a loop label.count or label.sum(capture)")
        return Operand(register, token.at)

    def arguments(self) -> list[Operand]:
        operands: list[Operand] = []
        while not operands or self.accept(","):
            operands.append(self.expression(0))
        self.expect(")")
        return operands

    def type_name(self) -> str:
        if self.token.kind != "name":
            raise Diagnostic(self.token.at, f"{self.describe()} where a type should be", check.CASTS_ALLOWED)
        name = self.advance().text
        if self.token.text == "(" and self.token.kind == "mark":
            raise Diagnostic(self.token.at, f"{name} with a precision", f"{name} alone")
        return name

    def infix(self, left: Operand, level: int) -> Operand:
        token = self.advance()
        if level in (OR, AND):
            return self.junction(left, token.text, level)
        if level == IS:
            return Operand(self.is_predicate(left), left.at)
        if level == RANGE:
            return Operand(self.range_predicate(left, token.text), left.at)
        if level == CAST:
            at = self.token.at
            return check.cast(left, self.type_name(), at)
        return self.binary(token.text, left, self.expression(level), level)

    def binary(self, operator: str, left: Operand, right: Operand, level: int) -> Operand:
        match operator:
            case "->" | "->>" | "#>" | "#>>":
                return check.extend_path(left, right, operator)
            case "?":
                return Operand(check.has_key(left, right), left.at)
            case "~":
                return Operand(check.regex_match(left, right), left.at)
            case "!~":
                return Operand(Not(check.regex_match(left, right)), left.at)
        node = check.compare(operator, left, right) if level == COMPARE else check.arithmetic(operator, left, right)
        return Operand(node, left.at)

    def junction(self, left: Operand, word: str, level: int) -> Operand:
        right = self.expression(level)
        nodes: list[Node] = []
        for operand in (left, right):
            node = check.require_type(operand, Type.BOOLEAN, f"an operand of {word}")
            nodes.extend(node.operands if isinstance(node, Junction) and node.word == word else (node,))
        return Operand(Junction(word, tuple(nodes)), left.at)

    def is_predicate(self, left: Operand) -> Node:
        negated = self.accept("not")
        token = self.advance()
        node: Node
        if token.text in ("true", "false"):
            node = Is(check.require_type(left, Type.BOOLEAN, f"the operand of is {token.text}"), token.text == "true")
        elif token.text == "unknown":
            node = Is(check.require_type(left, Type.BOOLEAN, "the operand of is unknown"), None)
        elif token.text == "null" and isinstance(left.value, JsonPath):
            # A JSON null is a value in PostgreSQL: only a missing path is null.
            node = Is(Field(left.value.root, left.value.steps, Extraction.TYPEOF, places=left.value.places), None)
        elif token.text == "null":
            node = Is(check.value_node(left), None)
        elif token.text == "distinct":
            self.expect("from")
            a, b = check.unify_types([left, self.expression(IS)])
            node = Compare("is distinct from", a, b)
        else:
            raise Diagnostic(token.at, "is what?", "is [not] null, true, false, unknown, distinct from")
        return Not(node) if negated else node

    def range_predicate(self, left: Operand, word: str) -> Node:
        if word == "not":
            return Not(self.range_predicate(left, self.advance().text))
        if word == "in":
            self.expect("(")
            operand, *items = check.unify_types([left, *self.arguments()])
            return In(operand, tuple(items))
        if word == "between":
            low = self.expression(RANGE)
            self.expect("and")
            high = self.expression(RANGE)
            if check.value_node(left).type is Type.BOOLEAN:
                raise Diagnostic(left.at, "between over booleans", "=, <>, is true, is false, is distinct from")
            return Between(*check.unify_types([left, low, high]))
        return check.like(left, self.expression(RANGE), fold=word == "ilike")
