"""A kind of `ours` for test_extensions.py."""

from __future__ import annotations


class Square:
    corners = 4

    def area(self, width: float) -> float:
        return width * width


SQUARE = Square()
