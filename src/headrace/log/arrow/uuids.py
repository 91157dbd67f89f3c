"""UUIDs as texts, by whole columns."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

_BYTES, _CHARACTERS = 16, 36
_GROUPS = ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32))
"""The digits between dashes."""


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
    pairs = _digits()[np.frombuffer(data, np.uint8)[begin : begin + count * _BYTES]]
    digits = pairs.view(np.uint8).reshape(count, 2 * _BYTES)
    characters = np.full((count, _CHARACTERS), ord("-"), np.uint8)
    for dashes, (low, high) in enumerate(_GROUPS):
        characters[:, low + dashes : high + dashes] = digits[:, low:high]
    offsets = np.arange(0, (count + 1) * _CHARACTERS, _CHARACTERS, dtype=np.int32)
    texts = pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(characters))
    return texts if column.null_count == 0 else pc.if_else(column.is_valid(), texts, None)


@cache
def _digits() -> NDArray[np.uint16]:
    """The two digits of every byte, as they lie in memory."""
    import numpy as np

    return np.frombuffer("".join(f"{byte:02x}" for byte in range(256)).encode(), np.uint16)
