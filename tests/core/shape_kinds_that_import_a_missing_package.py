"""A kind of `ours` whose extra is not installed, for test_extensions.py."""

import no_such_package  # type: ignore[import-not-found]  # noqa: F401
