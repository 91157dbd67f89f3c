"""Random schemas of the part of JSON Schema that we understand, and payloads that are near to them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

NAMES = ["a", "b", "a b", 'q"uote', "é", "z/~"]
TEXTS = ["", "a", "b", "ab", "abc", "é😀", "A1", "12", "a\nb", "x" * 12, "2026-01-31T08:30:00Z", '"', "\\"]
NUMBERS: list[Any] = [0, 1, -1, 2, 3, 5, 10, 0.5, -0.5, 1.0, 2.5, 1e20, 10**30, -(10**20)]
PATTERNS = ["^a", "b$", "^[a-z]+$", "[0-9]", "^a*b?$", "(a|é)", "^[^a]*$", "\\d{2}", "\\\\"]

scalars = st.one_of(st.none(), st.booleans(), st.sampled_from(NUMBERS), st.sampled_from(TEXTS))
documents = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(NAMES), inner, max_size=4)),
    max_leaves=8,
)


@st.composite
def _leaf(draw: st.DrawFn) -> Any:
    kind = draw(st.sampled_from(["boolean", "null", "integer", "number", "string", "enum", "const", "types", "any"]))
    if kind in ("boolean", "null"):
        return {"type": kind}
    if kind in ("integer", "number"):
        schema: dict[str, Any] = {"type": kind}
        for word in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
            if draw(st.integers(0, 3)) == 0:
                schema[word] = draw(st.sampled_from([0, 1, 2, -1, 0.5, 2.5, 10]))
        return schema
    if kind == "string":
        schema = {"type": "string"}
        if draw(st.booleans()):
            schema["minLength"] = draw(st.integers(0, 3))
        if draw(st.booleans()):
            schema["maxLength"] = draw(st.integers(0, 12))
        if draw(st.integers(0, 2)) == 0:
            schema["pattern"] = draw(st.sampled_from(PATTERNS))
        return schema
    if kind == "enum":
        return {"enum": draw(st.lists(scalars, min_size=1, max_size=4))}
    if kind == "const":
        return {"const": draw(scalars)}
    if kind == "types":
        names = st.sampled_from(["null", "integer", "number", "string", "array", "object"])
        return {"type": draw(st.lists(names, min_size=1, max_size=3, unique=True)), "minimum": 0, "minLength": 1}
    return draw(st.sampled_from([True, False, {}]))


@st.composite
def _object(draw: st.DrawFn, inner: st.SearchStrategy[Any]) -> Any:
    schema: dict[str, Any] = {"properties": draw(st.dictionaries(st.sampled_from(NAMES), inner, max_size=3))}
    if draw(st.integers(0, 4)):
        schema["type"] = "object"
    if draw(st.booleans()):
        schema["required"] = draw(st.lists(st.sampled_from(NAMES), max_size=2, unique=True))
    if draw(st.booleans()):
        schema["additionalProperties"] = draw(st.one_of(st.booleans(), inner))
    return schema


@st.composite
def _array(draw: st.DrawFn, inner: st.SearchStrategy[Any]) -> Any:
    schema: dict[str, Any] = {"type": "array", "items": draw(inner)}
    if draw(st.booleans()):
        schema["minItems"] = draw(st.integers(0, 2))
    if draw(st.booleans()):
        schema["maxItems"] = draw(st.integers(0, 3))
    return schema


schemas = st.recursive(
    _leaf(),
    lambda inner: st.one_of(
        _object(inner),
        _object(inner),
        _array(inner),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: {"anyOf": parts}),
    ),
    max_leaves=6,
)
