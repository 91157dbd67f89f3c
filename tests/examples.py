"""How many random examples a test tries."""

from __future__ import annotations

from hypothesis import settings


def examples(normal: int, explore: int) -> int:
    """Few in `make test`, which tries the same ones every time; more with the profile explore, as in `make test-slow`."""
    return explore if settings.get_current_profile_name() == "explore" else normal
