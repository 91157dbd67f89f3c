"""The loops over a simple table, one step per row: compiled by numba where it is installed, otherwise plain Python."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from importlib.util import find_spec
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
Loop = TypeVar("Loop", bound=Callable[..., object])


@cache
def is_compiled() -> bool:
    """Whether loops are compiled here."""
    return find_spec("numba") is not None


def compiled(loop: Loop) -> Loop:
    """The loop, compiled when it is first called: numba takes a second to import."""

    @cache
    def compile_once() -> Callable[..., object]:
        if not is_compiled():
            return loop
        import numba

        return cast("Callable[..., object]", numba.njit(cache=True)(loop))

    @wraps(loop)
    def call(*arguments: object) -> object:
        return compile_once()(*arguments)

    return cast("Loop", call)


@compiled
def step_rows(first: Flags, symbols: Ints, states: Ints, following: Ints, width: int) -> Ints:
    """The cell of each row, -1 for a row that only sets a state. `first` marks the first row of a key, which starts in state 0."""
    cells = np.empty(symbols.size, np.int64)
    state = 0
    for row in range(symbols.size):
        if first[row]:
            state = 0
        if symbols[row] < 0:
            state = states[row]
            cells[row] = -1
        else:
            cell = state * width + symbols[row]
            cells[row] = cell
            state = following[cell]
    return cells


@compiled
def step_states(states: Ints, symbols: Ints, following: Ints, width: int) -> tuple[int, Ints, Ints]:
    """Steps all states through the symbols, merging those that become equal, until all are the start state.

    Returns the row at which they are (-1: never), the distinct states that are left, and for each state at the start its index in these."""
    now = states.copy()
    count = now.size
    index = np.arange(count)
    place_of = np.full(following.size // width, -1, np.int64)
    for row in range(symbols.size):
        for number in range(count):
            now[number] = following[now[number] * width + symbols[row]]
        # Merging costs as much as a step: do it at every step while there are few states, now and then while many.
        if count > 1 and (count <= 4 or row % 16 == 15 or row == symbols.size - 1):
            left = 0
            place = np.empty(count, np.int64)
            for number in range(count):
                state = now[number]
                if place_of[state] < 0:
                    place_of[state] = left
                    now[left] = state
                    left += 1
                place[number] = place_of[state]
            for number in range(left):
                place_of[now[number]] = -1
            for number in range(index.size):
                index[number] = place[index[number]]
            count = left
        if count == 1 and now[0] == 0:
            return row, now[:1].copy(), index
    return -1, now[:count].copy(), index


@compiled
def pass_rows(
    row: int, end: int, state: int, codes: Ints, offsets: Ints, cells: NDArray[np.int64], kept: Ints
) -> tuple[int, int, int, bool]:
    """Steps a machine through the rows before `end` as long as its cells, by state and code, are known (not negative). A cell is the
    next state and, in its two lowest bits, a mark as of simple tables.

    Returns the row it stops at, the state there, how many offsets of changes it has put into `kept`, and whether it came to its
    start, which voids those before."""
    count = 0
    is_anew = False
    while row < end:
        cell = cells[state, codes[row]]
        if cell < 0:
            break
        state = cell >> 2
        if cell & 2:
            count = 0
            is_anew = True
        elif cell & 1:
            kept[count] = offsets[row]
            count += 1
        row += 1
    return row, state, count, is_anew
