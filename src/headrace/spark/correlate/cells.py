"""The one loop of a simple table: the cell of every event, state after state.

Compiled by numba where it is installed. Without it: by *rounds* where there are many keys (the r-th event of all keys at once,
in numpy), else a plain loop. All three give the same cells."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, cast

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Flags = NDArray[np.bool_]
    Cells = Callable[[Flags, Ints, Ints, Ints, int], Ints]

ROUNDS_MAX = 64
"""With longer keys than this, a round has too few of them to be worth a call."""


def cells(first: Flags, symbols: Ints, states: Ints, following: Ints, width: int) -> Ints:
    """The cell of each row, -1 for a row that only sets a state. `first` marks where a key begins, at state 0."""
    return _kernel()(first, symbols, states, following, width)


@lru_cache(maxsize=1)
def _kernel() -> Cells:
    if find_spec("numba") is None:
        return cells_without_compiler
    import numba

    return cast("Cells", numba.njit(cache=True)(_loop))


def _loop(first: Flags, symbols: Ints, states: Ints, following: Ints, width: int) -> Ints:
    found = np.empty(symbols.size, np.int64)
    state = 0
    for row in range(symbols.size):
        if first[row]:
            state = 0
        if symbols[row] < 0:
            state = states[row]
            found[row] = -1
        else:
            cell = state * width + symbols[row]
            found[row] = cell
            state = following[cell]
    return found


def cells_without_compiler(first: Flags, symbols: Ints, states: Ints, following: Ints, width: int) -> Ints:
    """The same without numba."""
    begins = np.flatnonzero(first)
    lengths = np.diff(np.append(begins, symbols.size))
    if lengths.size and lengths.max() <= ROUNDS_MAX:
        return _rounds(begins, lengths, symbols, states, following, width)
    found: list[int] = []
    state = 0
    table = following.tolist()
    for begins_here, symbol, given in zip(first.tolist(), symbols.tolist(), states.tolist(), strict=True):
        if begins_here:
            state = 0
        if symbol < 0:
            state = given
            found.append(-1)
        else:
            cell = state * width + symbol
            found.append(cell)
            state = table[cell]
    return np.array(found, np.int64)


def _rounds(begins: Ints, lengths: Ints, symbols: Ints, states: Ints, following: Ints, width: int) -> Ints:
    found = np.full(symbols.size, -1, np.int64)
    order = np.argsort(-lengths, kind="stable")
    rows, left = begins[order], lengths[order]
    state = np.zeros(rows.size, np.int64)
    for round_ in range(int(left[0])):
        alive = int(np.searchsorted(-left, -round_, side="left"))
        here = rows[:alive] + round_
        symbol = symbols[here]
        sets = symbol < 0
        cell = state[:alive] * width + np.where(sets, 0, symbol)
        found[here] = np.where(sets, -1, cell)
        state[:alive] = np.where(sets, states[here], following[cell])
    return found
