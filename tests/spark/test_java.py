"""Java for Spark: the system's, or the one from a Python package."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.spark.sessions import JAVA_MIN, ensure_java, java_version, without_vectors


def test_packaged_java_runs_if_the_system_has_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("shutil.which", lambda _: None)
    ensure_java()
    java = Path(os.environ["JAVA_HOME"]) / "bin" / "java"
    assert java_version(java) >= JAVA_MIN
    with_option = [str(java), "--add-modules=jdk.incubator.vector", "-version"]
    assert subprocess.run(with_option, capture_output=True, check=False).returncode == 0


def test_existing_java_home_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!{sys.executable}\nimport sys; print('openjdk version \"21.0.1\"', file=sys.stderr)\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    ensure_java()
    assert os.environ["JAVA_HOME"] == str(tmp_path)


def test_java_starts_without_the_module_it_warns_of_and_the_environment_stays(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    java = tmp_path / "a home" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!{sys.executable}\nimport sys; print(sys.argv[1:])\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "a home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with without_vectors():
        command = [f"{os.environ['JAVA_HOME']}/bin/java", "--add-modules=jdk.incubator.vector", "-D x=1"]
        assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "['-D x=1']\n"
    assert os.environ["JAVA_HOME"] == str(tmp_path / "a home")


@pytest.mark.slow
def test_a_local_session_starts_without_a_word() -> None:
    script = "from headrace.spark import session; print(session(master='local[1]', brief=True).range(3).count())"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("3\n", "")


@pytest.mark.slow
def test_spark_starts_with_the_packaged_java(tmp_path: Path) -> None:
    """In its own process: a running JVM cannot be replaced."""
    script = (
        "import shutil; shutil.which = lambda _: None\n"
        "from headrace.spark import session\n"
        "print(session(master='local[1]', brief=True).sparkContext.defaultParallelism)"
    )
    environ = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    environ.pop("JAVA_HOME", None)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environ, check=False)
    assert done.stdout.strip() == "1", done.stderr[-2000:]
