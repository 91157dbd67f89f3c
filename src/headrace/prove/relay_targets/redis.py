"""Redis Streams: redis-server with an append-only file and a stream per partition."""

from __future__ import annotations

from typing import Any, cast

from headrace.core import JSON
from headrace.prove.evidence import RelayedEvent
from headrace.prove.relay_targets.target import TIMEOUT_S, ServerProcess, find_program
from headrace.prove.workload import ORDERS, PARTITIONS


class RedisTarget(ServerProcess):
    """A Redis server that syncs every write."""

    kind = relay_kind = "redis"

    @classmethod
    def require(cls) -> None:
        find_program("redis-server", cls.kind)

    def command(self) -> list[str]:
        settings = {
            "port": self.port,
            "bind": "127.0.0.1",
            "dir": self.folder,
            "appendonly": "yes",
            "appendfsync": "always",
            "save": "",
        }
        config = self.folder / "redis.conf"
        config.write_text("".join(f'{name} "{value}"\n' for name, value in settings.items()))
        return [find_program("redis-server", self.kind), str(config)]

    def options(self) -> dict[str, JSON]:
        return {"host": "127.0.0.1", "port": self.proxy.port, "stream": f"{ORDERS}:{{partition}}", "timeout_s": TIMEOUT_S}

    async def read(self) -> list[RelayedEvent]:
        from redis.asyncio import Redis

        events: list[RelayedEvent] = []
        async with Redis(port=self.port) as client:
            for partition in range(PARTITIONS):
                for entry_id, fields in cast(list[Any], await client.xrange(f"{ORDERS}:{partition}")):
                    position = int(entry_id.decode().split("-")[0])
                    events.append(RelayedEvent(partition, position, fields[b"event_id"].decode()))
        return events
