"""Sorts rows by key and position. Keys become numbers first, which sort much faster than texts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

_DIGIT_BITS = 16
"""numpy sorts 16-bit numbers by counting, in a tenth of the time."""


def sort_rows(rows: pa.Table) -> pa.Table:
    """The rows of each key together, by offset."""
    encoded = pc.dictionary_encode(rows["key"].combine_chunks())
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    offsets = rows["offset"].to_numpy()
    # PostgreSQL reads a range in any order, though nearly always in that of positions.
    is_ordered = bool((offsets[1:] >= offsets[:-1]).all())
    return rows.take(pa.array(sort_codes(codes, len(encoded.dictionary)) if is_ordered else np.lexsort((offsets, codes))))


def sort_codes(codes: NDArray[Any], count: int) -> NDArray[np.int64]:
    """The rows by their codes, which are less than `count`; rows of one code keep their order."""
    order = np.argsort(codes.astype(np.uint16), kind="stable")
    shift = _DIGIT_BITS
    while count > 1 << shift:
        order = order[np.argsort((codes[order] >> shift).astype(np.uint16), kind="stable")]
        shift += _DIGIT_BITS
    return order
