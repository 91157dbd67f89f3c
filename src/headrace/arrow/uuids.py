"""UUIDs as texts, by whole columns."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

_BYTES, _CHARACTERS = 16, 36
_PLACES = tuple(place for place in range(_CHARACTERS) if place not in (8, 13, 18, 23))
"""Where the digits are; a dash is everywhere else."""


def uuid_texts(column: pa.FixedSizeBinaryArray) -> pa.StringArray:
    """The texts of UUIDs that come as 16 bytes each."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    count = len(column)
    data = column.buffers()[1]
    if count == 0 or data is None:
        return pa.nulls(count, pa.string())
    begin = column.offset * _BYTES
    digits = _digits()[np.frombuffer(data, np.uint8)[begin : begin + count * _BYTES]]
    characters = np.full((count, _CHARACTERS), ord("-"), np.uint8)
    characters[:, _PLACES] = digits.reshape(count, 2 * _BYTES)
    offsets = np.arange(0, (count + 1) * _CHARACTERS, _CHARACTERS, dtype=np.int32)
    texts = pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(characters))
    return texts if column.null_count == 0 else pc.if_else(column.is_valid(), texts, None)


@cache
def _digits() -> NDArray[np.uint8]:
    """The two digits of every byte."""
    import numpy as np

    return np.array([list(f"{byte:02x}".encode()) for byte in range(256)], np.uint8)
