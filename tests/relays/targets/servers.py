"""Real brokers on loopback and free ports, which can be killed and started again on the same data."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from headrace.db.server import free_port
from headrace.prove.relay_targets.brokers import PROGRAM, RabbitMQNode
from tests.builders import ROOT
from tests.conftest import temporary_folder
from tests.debian import find_program, install

USER = "relay"
PASSWORD = "Zx9-not-for-logs"


class Certificates:
    """A certificate authority, a server's certificate for 127.0.0.1, and a client's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=headrace test",
                      "-keyout", "ca.key", "-out", "ca.pem", "-days", "2")  # fmt: skip
        for name, extension in (("server", "subjectAltName=IP:127.0.0.1"), ("client", "subjectAltName=DNS:client")):
            self._openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}",
                          "-keyout", f"{name}.key", "-out", f"{name}.csr")  # fmt: skip
            (folder / f"{name}.ext").write_text(extension)
            self._openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
                          "-extfile", f"{name}.ext", "-out", f"{name}.pem", "-days", "2")  # fmt: skip

    def _openssl(self, *words: str) -> None:
        subprocess.run(["openssl", *words], cwd=self.folder, check=True, capture_output=True)

    def path(self, name: str) -> Path:
        return self.folder / name

    @property
    def client_secrets(self) -> dict[str, str]:
        names = {"tls_ca": "ca.pem", "tls_certificate": "client.pem", "tls_key": "client.key"}
        return {option: self.path(name).read_text() for option, name in names.items()}


class BrokerServer:
    """A process, its folder and its ports. A subclass says how it is started and when it is ready."""

    start_s = 30.0

    def __init__(self) -> None:
        self.folder = temporary_folder()
        self.port, self.tls_port = free_port(), free_port()
        self.certificates = Certificates(self.folder)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with (self.folder / "output").open("ab") as output:
            self.process = self.launch(output)
        deadline = time.monotonic() + self.start_s
        while not self.is_ready():
            assert self.process.poll() is None and time.monotonic() < deadline, (self.folder / "output").read_text()[-3000:]
            time.sleep(0.05)

    def launch(self, output: IO[bytes]) -> subprocess.Popen[bytes]:
        raise NotImplementedError

    def is_ready(self) -> bool:
        return accepts(self.port)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait(10)

    def stop(self) -> None:
        if self.process is not None:
            self.kill()
        shutil.rmtree(self.folder)


def accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError:
        return False
    return True


class NatsServer(BrokerServer):
    """nats-server with JetStream, which syncs every write. It has one port, with TLS or without."""

    def __init__(self, *, tls: bool = False) -> None:
        super().__init__()
        self._tls = tls

    def launch(self, output: IO[bytes]) -> subprocess.Popen[bytes]:
        config = self.folder / "nats.conf"
        config.write_text(
            f'listen: "127.0.0.1:{self.port}"\nmax_payload: 1MB\njetstream {{ store_dir: "{self.folder}/data", sync_interval: always }}\n'
            f'authorization {{ user: "{USER}", password: "{PASSWORD}" }}\n'
        )
        if self._tls:
            files = {"ca_file": "ca.pem", "cert_file": "server.pem", "key_file": "server.key"}
            lines = "".join(f'{name}: "{self.certificates.path(file)}"\n' for name, file in files.items())
            with config.open("a") as text:
                text.write(f"tls {{\n{lines}verify: true\n}}\n")
        program = Path(sys.executable).with_name("nats-server")
        return subprocess.Popen([program, "--config", config], stdout=output, stderr=output)


class RedisServer(BrokerServer):
    """Debian's redis-server with an append-only file."""

    def launch(self, output: IO[bytes]) -> subprocess.Popen[bytes]:
        settings = {
            "port": self.port,
            "bind": "127.0.0.1",
            "dir": self.folder,
            "appendonly": "yes",
            "appendfsync": "always",
            "requirepass": PASSWORD,
            "save": "",
            "tls-port": self.tls_port,
            "tls-ca-cert-file": self.certificates.path("ca.pem"),
            "tls-cert-file": self.certificates.path("server.pem"),
            "tls-key-file": self.certificates.path("server.key"),
        }
        config = self.folder / "redis.conf"
        config.write_text("".join(f'{name} "{value}"\n' for name, value in settings.items()))
        return subprocess.Popen([find_program("redis-server"), config], stdout=output, stderr=output)


class RabbitMQServer(BrokerServer):
    """Debian's rabbitmq-server with the stream plugin."""

    start_s = 90.0

    def __init__(self) -> None:
        super().__init__()
        install(["rabbitmq-server"], [PROGRAM, "epmd"])
        self.stream_port, self.stream_tls_port = free_port(), free_port()
        epmd = find_program("epmd", "erlang-base")
        self.node = RabbitMQNode(self.folder, self.port, self.stream_port, USER, PASSWORD, str(epmd))
        self.epmd = self.node.launch_epmd()

    def launch(self, output: IO[bytes]) -> subprocess.Popen[bytes]:
        tls_settings = (
            f"listeners.ssl.1 = 127.0.0.1:{self.tls_port}\nstream.listeners.ssl.1 = 127.0.0.1:{self.stream_tls_port}\n"
            f"stream.advertised_tls_port = {self.stream_tls_port}\nssl_options.verify = verify_peer\n"
            f"ssl_options.cacertfile = {self.certificates.path('ca.pem')}\nssl_options.certfile = {self.certificates.path('server.pem')}\n"
            f"ssl_options.keyfile = {self.certificates.path('server.key')}\nssl_options.fail_if_no_peer_cert = true\n"
        )
        return self.node.launch(output, advertised_port=self.stream_port, settings=tls_settings)

    def is_ready(self) -> bool:
        return self.node.is_ready()

    def kill(self) -> None:
        assert self.process is not None
        self.node.kill(self.process)

    def stop(self) -> None:
        super().stop()
        self.epmd.kill()
        self.epmd.wait(10)


class KafkaMock(BrokerServer):
    """The mock cluster inside the confluent-kafka wheel. It speaks the protocol and keeps records in memory; it is no Kafka."""

    CODE = """
import sys
from confluent_kafka import Producer
producer = Producer({"bootstrap.servers": "none", "test.mock.num.brokers": 3, "log_level": 0})
print(",".join(f"{b.host}:{b.port}" for b in producer.list_topics(timeout=10).brokers.values()), flush=True)
sys.stdin.read()
"""

    servers: list[str]

    def start(self) -> None:
        self.process = subprocess.Popen([sys.executable, "-c", self.CODE], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        self.servers = self.process.stdout.readline().decode().strip().split(",")

    def freeze(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)
        # The signal has only been sent: threads go on until each of them has seen it.
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED)

    def thaw(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)


class DeliveringProcess:
    """A process that opens a target and delivers messages in batches. It reports the last position of each confirmed batch."""

    def __init__(self, kind: str, options: Mapping[str, object], secrets: Mapping[str, str], work: Mapping[str, object]) -> None:
        environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.relays.targets.deliver_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env=environment,
        )
        assert self.process.stdin is not None
        self.process.stdin.write(
            json.dumps({"kind": kind, "options": options, "secrets": secrets, "work": work}).encode() + b"\n"
        )
        self.process.stdin.flush()

    async def confirmed(self) -> int | None:
        """The next reported position; none at the end of the process."""
        assert self.process.stdout is not None
        line = await asyncio.to_thread(self.process.stdout.readline)
        return int(line) if line else None

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(10)
