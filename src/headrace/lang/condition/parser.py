"""Text → tree: a precedence parser with PostgreSQL's own levels, over the tokens of `_lexer`.

The levels, from loose to tight: or, and, not, is, comparison, between/in/like, other operators (-> ->> #> #>> ? ~
!~), + -, * / %, sign, ::. Comparison, between/in/like and is do not chain, as in PostgreSQL: `a = b = c` is refused.
"""

from __future__ import annotations

from typing import Final

from headrace.lang.condition import checker as check
from headrace.lang.condition.checker import Operand, Place
from headrace.lang.condition.errors import Mistake
from headrace.lang.condition.lexer import Token, tokens_of
from headrace.lang.condition.limits import DEPTH_MAX, NESTING_MAX, NODES_MAX
from headrace.lang.condition.tree import Between, Compare, Constant, Field, In, Is, Junction, Node, Not, Take, Type, walk

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
_COLUMNS: Final[dict[str, Node | Place]] = {
    "object": Place("object", ()),
    "headers": Place("headers", ()),
    "type": Field("type", (), Take.TEXT),
    "key": Field("key", (), Take.TEXT),
    "emitted_at": Field("emitted_at", (), Take.MOMENT),
    "true": Constant(True, Type.BOOLEAN),
    "false": Constant(False, Type.BOOLEAN),
}
_RESERVED: Final = frozenset(_WORD_LEVELS) | {"not", "null", "distinct", "from", "unknown", "as", "cast"}


def parse_tree(text: str) -> Node:
    """The checked tree of the text. Raises Mistake."""
    tree = check.typed(parse_value(text), Type.BOOLEAN, "the condition")
    _check_size(tree)
    return tree


def parse_value(text: str) -> Operand:
    """What the text means, of whatever type. Raises Mistake."""
    parser = _Parser(tokens_of(text))
    operand = parser.expression(0)
    if parser.token.kind != "end":
        raise Mistake(parser.token.at, f"{parser.shown()} does not belong here", "an operator, and, or, or the end")
    if not isinstance(operand.what, Place):
        _check_size(operand.what)
    return operand


def _check_size(tree: Node) -> None:
    nodes = deepest = 0
    for _, depth in walk(tree):
        nodes += 1
        deepest = max(deepest, depth)
    if nodes > NODES_MAX:
        raise Mistake(0, f"the condition has {nodes} nodes", f"{NODES_MAX} nodes")
    if deepest > DEPTH_MAX:
        raise Mistake(0, f"the condition is {deepest} levels deep", f"{DEPTH_MAX} levels")


class _Parser:
    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.index = 0
        self.depth = 0

    @property
    def token(self) -> Token:
        return self.tokens[self.index]

    def shown(self) -> str:
        return {"end": "the end of the text", "string": "a text literal"}.get(self.token.kind, self.token.text)

    def advance(self) -> Token:
        token = self.token
        self.index += token.kind != "end"
        return token

    def at_word(self, *words: str) -> bool:
        return self.token.kind == "name" and self.token.text in words

    def take_word(self, word: str) -> bool:
        found = self.at_word(word)
        self.index += found
        return found

    def take_mark(self, mark: str) -> bool:
        found = self.token.kind == "mark" and self.token.text == mark
        self.index += found
        return found

    def expect_mark(self, mark: str) -> None:
        if not self.take_mark(mark):
            raise Mistake(self.token.at, f"{mark} is missing before {self.shown()}", f"{mark} here")

    def expect_word(self, word: str) -> None:
        if not self.take_word(word):
            raise Mistake(self.token.at, f"{word} is missing before {self.shown()}", f"{word} here")

    def expression(self, floor: int) -> Operand:
        """One expression whose operators all bind tighter than the floor."""
        self.depth += 1
        if self.depth > NESTING_MAX:
            raise Mistake(self.token.at, f"the text is nested more than {NESTING_MAX} deep", f"{NESTING_MAX} levels of nesting")
        if floor >= NOT and self.at_word("not"):
            raise Mistake(self.token.at, "not cannot follow an operator", "parentheses around not …")
        left = self.prefix()
        ceiling, leaning = CAST, 0
        while (level := self.infix_level()) > floor:
            if level > ceiling or (level == ceiling and level in _NO_CHAIN):
                raise Mistake(
                    self.token.at,
                    f"{self.shown()} cannot follow without parentheses",
                    "parentheses around one of the two",
                )
            left = self.infix(left, level)
            ceiling = level
            # Sums, products and casts lean to the left: each one is a level of the tree without one of the text.
            leaning += level >= SUM
            if leaning > DEPTH_MAX:
                raise Mistake(self.token.at, f"the condition is more than {DEPTH_MAX} levels deep", f"{DEPTH_MAX} levels")
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
            return Operand(Constant(token.text, Type.TEXT), token.at)
        if token.kind == "name":
            return self.word()
        if self.take_mark("("):
            inner = self.expression(0)
            self.expect_mark(")")
            return Operand(inner.what, token.at)
        if token.kind == "operator" and token.text in ("-", "+"):
            self.advance()
            operand = self.expression(SIGN)
            return Operand(check.signed(token.text, operand), token.at)
        raise Mistake(token.at, f"{self.shown()} where a value should be", f"a value: a number, 'text', {_NAMES_ALLOWED}")

    def word(self) -> Operand:
        token = self.advance()
        if token.text == "not":
            operand = self.expression(NOT - 1)
            return Operand(Not(check.typed(operand, Type.BOOLEAN, "the operand of not")), token.at)
        if token.text == "timestamptz" and self.token.kind == "string":
            literal = self.advance()
            return Operand(check.moment_constant(literal.text, literal.at), token.at)
        if token.text == "cast" and self.take_mark("("):
            operand = self.expression(0)
            self.expect_word("as")
            result = check.cast(operand, self.type_name(), token.at)
            self.expect_mark(")")
            return Operand(result.what, token.at)
        if token.text in check.FUNCTIONS and self.take_mark("("):
            return Operand(check.call(token.text, token.at, self.arguments()), token.at)
        if token.text in _COLUMNS:
            return Operand(_COLUMNS[token.text], token.at)
        if token.text == "null":
            raise Mistake(token.at, "null as a value", "is null, is not null")
        kind = "function" if self.token.text == "(" and token.text not in _RESERVED else "name"
        raise Mistake(token.at, f"unknown {kind} {token.text[:60]}", _NAMES_ALLOWED)

    def arguments(self) -> list[Operand]:
        found: list[Operand] = []
        while not found or self.take_mark(","):
            found.append(self.expression(0))
        self.expect_mark(")")
        return found

    def type_name(self) -> str:
        if self.token.kind != "name":
            raise Mistake(self.token.at, f"{self.shown()} where a type should be", check.CASTS_ALLOWED)
        name = self.advance().text
        if self.token.text == "(" and self.token.kind == "mark":
            raise Mistake(self.token.at, f"{name} with a precision", f"{name} alone")
        return name

    def infix(self, left: Operand, level: int) -> Operand:
        token = self.advance()
        if level in (OR, AND):
            return self.junction(left, token.text, level)
        if level == IS:
            return Operand(self.is_what(left), left.at)
        if level == RANGE:
            return Operand(self.ranged(left, token.text), left.at)
        if level == CAST:
            at = self.token.at
            return check.cast(left, self.type_name(), at)
        return self.binary(token.text, left, self.expression(level), level)

    def binary(self, operator: str, left: Operand, right: Operand, level: int) -> Operand:
        match operator:
            case "->" | "->>" | "#>" | "#>>":
                return check.step_into(left, right, operator)
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
            node = check.typed(operand, Type.BOOLEAN, f"an operand of {word}")
            nodes.extend(node.operands if isinstance(node, Junction) and node.word == word else (node,))
        return Operand(Junction(word, tuple(nodes)), left.at)

    def is_what(self, left: Operand) -> Node:
        negated = self.take_word("not")
        token = self.advance()
        node: Node
        if token.text in ("true", "false"):
            node = Is(check.typed(left, Type.BOOLEAN, f"the operand of is {token.text}"), token.text == "true")
        elif token.text == "unknown":
            node = Is(check.typed(left, Type.BOOLEAN, "the operand of is unknown"), None)
        elif token.text == "null":
            node = self.is_null(left)
        elif token.text == "distinct":
            self.expect_word("from")
            a, b = check.alike([left, self.expression(IS)])
            node = Compare("is distinct from", a, b)
        else:
            raise Mistake(token.at, "is what?", "is [not] null, true, false, unknown, distinct from")
        return Not(node) if negated else node

    def is_null(self, left: Operand) -> Node:
        # A JSON null is a value in PostgreSQL: only a missing place is null.
        if isinstance(left.what, Place):
            return Is(Field(left.what.root, left.what.path, Take.TYPEOF), None)
        return Is(left.what, None)

    def ranged(self, left: Operand, word: str) -> Node:
        if word == "not":
            return Not(self.ranged(left, self.advance().text))
        if word == "in":
            self.expect_mark("(")
            return In(*self.members(left))
        if word == "between":
            low = self.expression(RANGE)
            self.expect_word("and")
            high = self.expression(RANGE)
            return self.between(left, low, high)
        return check.like(left, self.expression(RANGE), fold=word == "ilike")

    def members(self, left: Operand) -> tuple[Node, tuple[Node, ...]]:
        operand, *items = check.alike([left, *self.arguments()])
        return operand, tuple(items)

    def between(self, left: Operand, low: Operand, high: Operand) -> Node:
        if check.node_of(left).type is Type.BOOLEAN:
            raise Mistake(left.at, "between over booleans", "=, <>, is true, is false, is distinct from")
        return Between(*check.alike([left, low, high]))
