"""MCP on stdin and stdout: a message a line, and nothing else on stdout.

The library's own transport reads lines of any length, drops what it cannot read without a word, and
cannot end while it waits for input. Here a line has a bound, what is no message is answered, and
the two threads that read and write do not keep the process. Input is not read on while too many
requests wait for their answers. At the end of the input, or told to stop, what was read is
answered first.
"""

import asyncio
import os
import queue
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import anyio
import mcp_types as types
from anyio.abc import TaskGroup
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from pydantic_core import from_json

RECEIVE_BYTES = 64 << 10
PENDING_MAX = 256
DRAIN_S = 10.0
_LONG_LIVED = "subscriptions/listen"
"""Its answer comes when it ends; nothing waits for that."""

Incoming = SessionMessage | Exception


class Wire(NamedTuple):
    """What the library reads from and writes to."""

    read: MemoryObjectReceiveStream[Incoming]
    write: MemoryObjectSendStream[SessionMessage]


@asynccontextmanager
async def wire(
    stdin: int, stdout: int, line_bytes_max: int, stop: asyncio.Event
) -> AsyncIterator[Wire]:
    """The two streams of a server on these files. The first ends with the input, or with `stop`,
    when what came before is answered.
    """
    pending = _Pending()
    to_server, read = anyio.create_memory_object_stream[Incoming](0)
    write, from_server = anyio.create_memory_object_stream[SessionMessage](0)
    reader = _Reader(stdin, line_bytes_max)
    writer = _Writer(stdout)
    async with anyio.create_task_group() as group:

        async def receive() -> None:
            async with to_server:
                async with anyio.create_task_group() as receiving:
                    receiving.start_soon(_stop_at, stop, receiving)
                    await _receive(reader, writer, pending, to_server)
                    receiving.cancel_scope.cancel()
                with anyio.move_on_after(DRAIN_S):
                    await pending.wait_until(0)

        async def send() -> None:
            async with from_server:
                async for message in from_server:
                    pending.answered(message.message)
                    await writer.write(_line(message.message))

        group.start_soon(receive)
        group.start_soon(send)
        yield Wire(read, write)


async def _stop_at(stop: asyncio.Event, receiving: TaskGroup) -> None:
    await stop.wait()
    receiving.cancel_scope.cancel()


async def _receive(
    reader: "_Reader",
    writer: "_Writer",
    pending: "_Pending",
    to_server: MemoryObjectSendStream[Incoming],
) -> None:
    async for line in reader:
        message = _parsed(line)
        if isinstance(message, types.JSONRPCError):
            await writer.write(_line(message))
            continue
        pending.came(message)
        await to_server.send(SessionMessage(message))
        await pending.wait_until(PENDING_MAX)


def _parsed(line: bytes | None) -> types.JSONRPCMessage:
    """The message in a line, or the error to answer with. None: the line was too long."""
    if line is None:
        return _error(types.INVALID_REQUEST, "the message is too large")
    try:
        # As over HTTP: numbers of any size, no halves of surrogate pairs.
        value = from_json(line, allow_inf_nan=False)
    except ValueError as error:
        return _error(types.PARSE_ERROR, f"not valid JSON: {error}")
    try:
        message = types.jsonrpc_message_adapter.validate_python(value, by_name=False)
    except ValueError:
        message = None
    # Whatever has an id wants an answer: one that is no id makes no notification of it.
    if message is None or ("id" in value and isinstance(message, types.JSONRPCNotification)):
        return _error(types.INVALID_REQUEST, "that is no message of JSON-RPC 2.0")
    return message


def _error(
    code: int, message: str, request_id: types.RequestId | None = None
) -> types.JSONRPCError:
    error = types.ErrorData(code=code, message=message)
    return types.JSONRPCError(jsonrpc="2.0", id=request_id, error=error)


def _line(message: types.JSONRPCMessage) -> bytes:
    try:
        return message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
    except ValueError:
        # Nested deeper than can be written; one answer less is no reason to end.
        if not isinstance(message, types.JSONRPCResponse):
            raise
        return _line(_error(types.INTERNAL_ERROR, "the answer has no JSON form", message.id))


class _Pending:
    """How many requests were read that are not answered yet."""

    def __init__(self) -> None:
        self._ids: set[str] = set()
        self._fewer = asyncio.Event()

    def came(self, message: types.JSONRPCMessage) -> None:
        if isinstance(message, types.JSONRPCRequest) and message.method != _LONG_LIVED:
            self._ids.add(str(message.id))
            return
        if not isinstance(message, types.JSONRPCNotification):
            return
        if message.method == "notifications/cancelled":
            # Who cancels a request gets no answer to it.
            self._gone((message.params or {}).get("requestId"))

    def answered(self, message: types.JSONRPCMessage) -> None:
        if isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
            self._gone(message.id)

    def _gone(self, key: object) -> None:
        self._ids.discard(str(key))
        self._fewer.set()

    async def wait_until(self, count: int) -> None:
        """Wait until there are no more than so many."""
        while len(self._ids) > count:
            self._fewer.clear()
            await self._fewer.wait()


class _Reader(AsyncIterator[bytes | None]):
    """Lines of a file, read by a thread one ahead; None for one that is too long."""

    def __init__(self, file: int, line_bytes_max: int) -> None:
        self._file = file
        self._line_bytes_max = line_bytes_max
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[tuple[bytes | None] | None] = asyncio.Queue()
        self._room = threading.Semaphore(2)
        threading.Thread(target=self._run, name="zoned-stdin", daemon=True).start()

    async def __anext__(self) -> bytes | None:
        found = await self._lines.get()
        self._room.release()
        if found is None:
            raise StopAsyncIteration
        return found[0]

    def _run(self) -> None:
        for line in self._read():
            if line is None or line.strip():
                self._put((line,))
        self._put(None)

    def _put(self, what: tuple[bytes | None] | None) -> None:
        self._room.acquire()
        try:
            self._loop.call_soon_threadsafe(self._lines.put_nowait, what)
        except RuntimeError:
            return  # the loop has ended, and nobody wants to hear any more

    def _read(self) -> Iterator[bytes | None]:
        parts: list[bytes] = []
        size = 0
        while True:
            try:
                data = os.read(self._file, RECEIVE_BYTES)
            except OSError:
                data = b""  # a terminal that is gone is the end, too
            *ends, rest = data.split(b"\n")
            for end in ends:
                size += len(end)
                yield None if size > self._line_bytes_max else b"".join([*parts, end])
                parts, size = [], 0
            size += len(rest)
            # Of a line that is too long only its length is kept.
            parts = [*parts, rest] if size <= self._line_bytes_max else []
            if not data:
                if size:
                    yield None if size > self._line_bytes_max else b"".join(parts)
                return


class _Writer:
    """Writes to a file by a thread: who does not read its answers holds up nobody else."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._loop = asyncio.get_running_loop()
        self._jobs: queue.SimpleQueue[tuple[bytes, asyncio.Future[None]]] = queue.SimpleQueue()
        self._lock = asyncio.Lock()
        threading.Thread(target=self._run, name="zoned-stdout", daemon=True).start()

    async def write(self, data: bytes) -> None:
        """Write a line; on return it is out of our hands."""
        async with self._lock:
            future = self._loop.create_future()
            self._jobs.put((data, future))
            await future

    def _run(self) -> None:
        while True:
            data, future = self._jobs.get()
            rest = memoryview(data)
            try:
                while rest:
                    rest = rest[os.write(self._file, rest) :]
            except OSError:
                pass  # nobody reads any more: the end of the input will come, too
            try:
                self._loop.call_soon_threadsafe(_done, future)
            except RuntimeError:
                return


def _done(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
