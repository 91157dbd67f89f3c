"""Runs of the checker keep their servers in memory where there is room: what they test is a kill, not the disk."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator

import pytest

from tests.conftest import temporary_folder


@pytest.fixture(autouse=True, scope="module")
def in_memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    tmp_path_factory.getbasetemp()  # chosen now: later it would lie in the folder that is deleted here
    folder = temporary_folder(in_memory=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(folder))
        yield
    shutil.rmtree(folder, ignore_errors=True)
