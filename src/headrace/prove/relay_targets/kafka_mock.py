"""The mock cluster as a process: prints its addresses, then takes `down` and `up` on its input and confirms each by a line.

`down` ends all connections and refuses new ones; the records stay. The package's Python interface does not have that, so the functions
of its library are called directly."""

from __future__ import annotations

import ctypes
import sys
from importlib.util import find_spec
from pathlib import Path

BROKERS = 3
PRODUCER = 0
"""RD_KAFKA_PRODUCER."""


def _library() -> ctypes.CDLL:
    spec = find_spec("confluent_kafka")
    assert spec is not None and spec.origin is not None
    (path,) = Path(spec.origin).parent.with_name("confluent_kafka.libs").glob("librdkafka-*")
    import confluent_kafka  # noqa: F401 - loads the libraries that librdkafka needs

    library = ctypes.CDLL(str(path))
    pointer, integer = ctypes.c_void_p, ctypes.c_int
    signatures: dict[str, tuple[object, list[object]]] = {
        "rd_kafka_conf_new": (pointer, []),
        "rd_kafka_new": (pointer, [integer, pointer, ctypes.c_char_p, ctypes.c_size_t]),
        "rd_kafka_mock_cluster_new": (pointer, [pointer, integer]),
        "rd_kafka_mock_cluster_bootstraps": (ctypes.c_char_p, [pointer]),
        "rd_kafka_mock_broker_set_down": (integer, [pointer, ctypes.c_int32]),
        "rd_kafka_mock_broker_set_up": (integer, [pointer, ctypes.c_int32]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    library = _library()
    error = ctypes.create_string_buffer(512)
    client = library.rd_kafka_new(PRODUCER, library.rd_kafka_conf_new(), error, len(error))
    assert client, error.value
    cluster = library.rd_kafka_mock_cluster_new(client, BROKERS)
    _say(library.rd_kafka_mock_cluster_bootstraps(cluster).decode())
    acts = {"down": library.rd_kafka_mock_broker_set_down, "up": library.rd_kafka_mock_broker_set_up}
    for line in sys.stdin:
        for broker in range(1, BROKERS + 1):
            acts[line.strip()](cluster, broker)
        _say(line.strip())


if __name__ == "__main__":
    main()
