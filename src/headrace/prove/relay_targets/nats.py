"""NATS JetStream: nats-server with a stream that has a subject per partition."""

from __future__ import annotations

from headrace.core import JSON
from headrace.prove.evidence import RelayedEvent
from headrace.prove.relay_targets.target import TIMEOUT_S, ServerProcess, find_program, relayed_event
from headrace.prove.workload import ORDERS

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
