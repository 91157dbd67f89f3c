"""A RabbitMQ node: how it is started on loopback with a name, a cookie, an epmd and folders of its own, and how it is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from headrace.db import free_port
from headrace.prove.relay_targets.target import accepts

PROGRAM = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
"""Debian's script on the path changes to a user of its own; the one behind it does not."""


@dataclass(frozen=True)
class RabbitMQNode:
    """A node with the stream plugin."""

    folder: Path
    queue_port: int
    stream_port: int
    user: str
    password: str
    epmd: str
    """The program that maps names of Erlang nodes to ports."""
    epmd_port: int = field(default_factory=free_port)
    erlang_port: int = field(default_factory=free_port)

    def launch_epmd(self) -> subprocess.Popen[bytes]:
        command = [self.epmd, "-address", "127.0.0.1", "-port", str(self.epmd_port)]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def launch(self, output: int | IO[bytes], *, advertised_port: int, settings: str = "") -> subprocess.Popen[bytes]:
        """`advertised_port`: where the server sends the clients of streams; `settings`: more lines of its configuration."""
        config = self.folder / "rabbitmq.conf"
        config.write_text(
            f"listeners.tcp.1 = 127.0.0.1:{self.queue_port}\nstream.listeners.tcp.1 = 127.0.0.1:{self.stream_port}\n"
            f"stream.advertised_host = 127.0.0.1\nstream.advertised_port = {advertised_port}\n"
            f"default_user = {self.user}\ndefault_pass = {self.password}\n"
            "log.console = true\nlog.console.level = warning\nlog.file = false\n"
            "disk_free_limit.absolute = 1MB\nvm_memory_high_watermark.absolute = 512MB\n" + settings
        )
        plugins = self.folder / "enabled_plugins"
        plugins.write_text("[rabbitmq_stream].\n")
        environment = {
            "PATH": os.pathsep.join([*os.get_exec_path(), "/usr/sbin"]),
            "HOME": str(self.folder),
            "LANG": "C.UTF-8",
            "ERL_EPMD_PORT": str(self.epmd_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"headrace{self.queue_port}@localhost",
            "RABBITMQ_DIST_PORT": str(self.erlang_port),
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_CONFIG_FILE": str(config),
            "RABBITMQ_CONF_ENV_FILE": str(self.folder / "none"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(plugins),
            "RABBITMQ_MNESIA_BASE": str(self.folder / "mnesia"),
            "RABBITMQ_LOG_BASE": str(self.folder / "log"),
            "RABBITMQ_GENERATED_CONFIG_DIR": str(self.folder / "generated"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1} +S 1:1 +sbwt none",
        }
        return subprocess.Popen(
            [PROGRAM],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment,
            cwd=self.folder,
            start_new_session=True,
        )

    def is_ready(self) -> bool:
        return accepts(self.queue_port) and accepts(self.stream_port)

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """The script, the Erlang machine and what it has started are one group of processes. Returns when nobody listens any more."""
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)
        while accepts(self.queue_port) or accepts(self.stream_port):
            time.sleep(0.02)
