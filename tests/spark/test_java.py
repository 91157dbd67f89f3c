"""Where no Java is installed, Spark's Java comes from a Python package."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.spark.java import JAVA_MIN, ensure_java, java_version


def test_without_a_java_of_the_system_the_packaged_one_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("shutil.which", lambda _: None)
    ensure_java()
    java = Path(os.environ["JAVA_HOME"]) / "bin" / "java"
    assert java_version(java) >= JAVA_MIN
    with_option = [str(java), "--add-modules=jdk.incubator.vector", "-version"]
    assert subprocess.run(with_option, capture_output=True, check=False).returncode == 0


def test_a_java_that_is_there_is_left_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!{sys.executable}\nimport sys; print('openjdk version \"21.0.1\"', file=sys.stderr)\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    ensure_java()
    assert os.environ["JAVA_HOME"] == str(tmp_path)


def test_spark_starts_with_the_packaged_java(tmp_path: Path) -> None:
    """In a process of its own: a JVM once started is not exchanged."""
    script = (
        "import shutil; shutil.which = lambda _: None\n"
        "from headrace.spark import session\n"
        "print(session(master='local[1]').range(5).count())"
    )
    environ = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    environ.pop("JAVA_HOME", None)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environ, check=False)
    assert done.stdout.strip() == "5", done.stderr[-2000:]
