"""Something between client and daemon that cuts connections in the middle of whatever they say."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

PIECE_BYTES = 4096

Budget = Callable[[], int]
Filter = Callable[[bytes], bytes]


class Proxy:
    """Passes bytes on, up to a number drawn for each direction of each connection; then it cuts
    both sides. What was passed on before is with the other side, mostly without an answer.
    """

    def __init__(self, target: str, budget: Budget) -> None:
        self._target = target
        self.budget = budget
        self.path = ""
        self.cuts = 0
        self.muted_by = b""
        """Once a client has said this, nothing that the daemon says on its connection is passed
        on."""
        self._open: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            up_reader, up_writer = await asyncio.open_unix_connection(self._target)
        except OSError:
            writer.transport.abort()
            self._serving.discard(task)
            return
        self._open |= {writer, up_writer}
        is_muted = False

        def listen(data: bytes) -> bytes:
            nonlocal is_muted
            is_muted = is_muted or (self.muted_by != b"" and self.muted_by in data)
            return data

        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(reader, up_writer, writer, listen))
                group.create_task(
                    self._pump(up_reader, writer, up_writer, lambda data: b"" if is_muted else data)
                )
        finally:
            self._open -= {writer, up_writer}
            self._serving.discard(task)

    def cut_all(self) -> None:
        """Cut what there is, now."""
        self.cuts += len(self._open) // 2
        for writer in self._open:
            writer.transport.abort()

    async def close(self) -> None:
        """Cut what there is, and wait until it is gone."""
        self.cut_all()
        if self._serving:
            await asyncio.wait(self._serving)

    async def _pump(
        self,
        reader: asyncio.StreamReader,
        to: asyncio.StreamWriter,
        back: asyncio.StreamWriter,
        passed: Filter,
    ) -> None:
        left = self.budget()
        try:
            while left > 0 and (data := await reader.read(PIECE_BYTES)):
                to.write(passed(data[:left]))
                await to.drain()
                left -= len(data)
            self.cuts += left <= 0
        except OSError:
            pass  # the other direction was cut, or the daemon killed
        to.transport.abort()
        back.transport.abort()


@asynccontextmanager
async def proxy(folder: Path, target: str, budget: Budget) -> AsyncIterator[Proxy]:
    """A proxy on a socket in `folder`."""
    between = Proxy(target, budget)
    between.path = str(folder / "proxy.sock")
    server = await asyncio.start_unix_server(between.serve, between.path)
    try:
        yield between
    finally:
        server.close()
        await between.close()


def random_budget(rng: random.Random, bytes_max: int) -> Budget:
    """Most connections get somewhere; some not even through the handshake."""
    return lambda: int(rng.choice([0.02, 0.5, 1.0, 1.0]) * rng.uniform(1, bytes_max))


def unlimited() -> int:
    return 1 << 60
