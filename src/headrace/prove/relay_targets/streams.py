"""Streams in one server process: NATS JetStream with a subject per partition, and Redis Streams with an append-only file and a
stream per partition."""

from __future__ import annotations

from typing import Any, cast

from headrace.core import JSON
from headrace.prove.evidence import RelayedEvent
from headrace.prove.relay_targets.target import TIMEOUT_S, ServerProcess, find_program, relayed_event
from headrace.prove.workload import ORDERS, PARTITIONS

STREAM = "ORDERS"


class NatsTarget(ServerProcess):
    """A NATS server that syncs every write."""

    kind = relay_kind = "nats"

    @classmethod
    def require(cls) -> None:
        find_program("nats-server", cls.kind)

    def command(self) -> list[str]:
        config = self.folder / "nats.conf"
        config.write_text(
            f'listen: "127.0.0.1:{self.port}"\njetstream {{ store_dir: "{self.folder}/data", sync_interval: always }}\n'
        )
        return [find_program("nats-server", self.kind), "--config", str(config)]

    def options(self) -> dict[str, JSON]:
        return {
            "servers": f"127.0.0.1:{self.proxy.port}",
            "stream": STREAM,
            "subject": f"{ORDERS}.{{partition}}",
            "timeout_s": TIMEOUT_S,
        }

    async def prepare(self) -> None:
        import nats
        from nats.js.api import StreamConfig

        client = await nats.connect(f"nats://127.0.0.1:{self.port}")
        await client.jetstream().add_stream(StreamConfig(STREAM, subjects=[f"{ORDERS}.*"], allow_atomic=True))
        await client.close()

    async def read(self) -> list[RelayedEvent]:
        import nats

        client = await nats.connect(f"nats://127.0.0.1:{self.port}")
        try:
            stream = client.jetstream()
            count = (await stream.stream_info(STREAM)).state.messages
            subscription = await stream.subscribe(f"{ORDERS}.*", stream=STREAM, ordered_consumer=True)
            messages = [await subscription.next_msg(timeout=30) for _ in range(count)]
        finally:
            await client.close()
        return [relayed_event(dict(message.headers or {})) for message in messages]


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
