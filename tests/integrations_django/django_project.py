"""The Django project of examples/django_shop, called as its users call it: in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.builders import ROOT

PROJECT = ROOT / "examples/django_shop"


@dataclass(frozen=True)
class DjangoProject:
    """The project on one database."""

    dsn: str
    settings: str = "shop.settings"

    def manage(self, *words: str, code: int = 0) -> str:
        """Runs `manage.py` and returns what it printed; its exit code must be `code`."""
        result = self._run("manage.py", *words, code=code)
        return result.stdout + result.stderr

    def python(self, script: Path, *words: str) -> str:
        """Runs a script with Django's settings and returns its standard output."""
        return self._run(str(script), *words, code=0).stdout

    def _run(self, *words: str, code: int) -> subprocess.CompletedProcess[str]:
        environment = {
            **os.environ,
            "DATABASE_URL": self.dsn,
            "DJANGO_SETTINGS_MODULE": self.settings,
            "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}:{PROJECT}",
            "PYTHONWARNINGS": "ignore",
        }
        environment.pop("HEADRACE_DSN", None)
        command = [sys.executable, *words]
        result = subprocess.run(command, cwd=PROJECT, env=environment, capture_output=True, text=True, timeout=60, check=False)
        assert result.returncode == code, f"{words}: exit code {result.returncode}\n{result.stdout}\n{result.stderr}"
        return result
