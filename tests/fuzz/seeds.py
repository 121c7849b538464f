"""What fuzzing begins with: real inputs for each target, and whatever was found to be of interest.

`FOUND` grows: every input that once broke a target is kept there, with what it was.
"""

import io
import re
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path

from filestore.sessions.portable import FileHead, SessionHead, Writer
from tests.replay.golden_streams import STREAMS, read_stream
from tests.support.daemon import BINARY, CLOSE, PING, TEXT, frame
from tests.support.old_folder import OUTPUT, STATE, OldFolder

FOUND: dict[str, tuple[bytes, ...]] = {
    "frames": (
        b"",
        b"\x01\x81",
        b"\x03" + frame(TEXT, b"", claimed=(1 << 64) - 1),
        b"\x03" + frame(TEXT, b"ab", is_final=False) + frame(PING, b"p") + frame(0, b"c"),
        b"\x01" + frame(TEXT, b"x" * 600, is_final=False) + frame(0, b"y" * 401),
    ),
    "lines": (
        b"",
        b"\x01\xe2\x80\xa8\na\n",
        b"\x02 \xc2\x85\n\xe3\x80\x80 \xe2\x80",
        b"\x03\x1c\n\x85\n\xa0\r\n\x00\n",
        b"\x01{}\n\n  {}\n12",
    ),
    "replay": (
        b"",
        b"\x00\x01\xe2\x80\xa8{}",
        b'\x00\x05{"type":"user"',
        b'\x01\x00{"type":"user","message":{"content":"a"}}{"type":"user"}\n\x00\x00\x00',
        b'\x00\x00{"a":' + b"[" * 300 + b"]" * 300 + b"}",
        b'\x00\x00{"type":"assistant","message":{"content":[{"type":"text","text":"\\ud800"}]}}\n',
    ),
    "legacy": (
        b"",
        b"\x01",
        b"\x01SQLite format 3\0",
        b"\x01" + bytes(4096),
    ),
    "portable": (b"", b"\x01", b"\x00", b"\x01zoned session\n\xff\xff"),
}


def seeds(target: str) -> Iterator[bytes]:
    """Inputs for one target, small ones first."""
    yield from FOUND[target]
    yield from _REAL[target]()


def words(target: str) -> Iterator[bytes]:
    """What inputs of a target are made of: to bend them, chance need not spell it."""
    if target == "replay":
        streams = b"".join(map(read_stream, STREAMS))
        yield from sorted(set(re.findall(rb'"[\w/ -]{1,24}"', streams)))
    yield from (b"\n", b"\xe2\x80\xa8", b"{}", b"SQLite format 3\x00")


def _frames() -> Iterator[bytes]:
    call = b'{"jsonrpc":"2.0","id":1,"method":"srv:info"}'
    stream = frame(TEXT, call) + frame(BINARY, b"\x80" * 130) + frame(CLOSE, b"\x03\xe8")
    yield from (bytes([size]) + stream for size in (1, 7, 255))
    yield b"\x02" + frame(TEXT, b"x" * 200, key=None) + frame(PING, b"", key=None)


def _lines() -> Iterator[bytes]:
    yield b"\x10" + "\u2028a\n\u3000\n \u0085b\r\n\n€".encode()


def _replay() -> Iterator[bytes]:
    for number, name in enumerate(STREAMS):
        stream = read_stream(name)
        yield b"\x00" + bytes([number]) + stream
        # A line by itself is quicker to bend than a whole stream.
        yield from (b"\x00\x00" + line + b"\n" for line in stream.splitlines()[:40])


def _legacy() -> Iterator[bytes]:
    yield b"\x00" + _row(0, _OUTPUT_ROW) + _row(1, [b"\x2d", b"\x3d", b"\x09", b"\x04\x03abc"])
    # It claims to have gone round in more parts than there are bytes on earth.
    options = b'{"circular":true,"maxsize":4611686018427387904}'
    huge = b"\x02" + struct.pack("<q", (1 << 62) + 9)
    row = [*_OUTPUT_ROW[:2], huge, *_OUTPUT_ROW[3:5], b"\x06" + bytes([len(options)]) + options,
           *_OUTPUT_ROW[6:]]  # fmt: skip
    yield b"\x00" + _row(0, row) + _row(1, [b"\x05", b"\x15", b"\x01", b"\x04\x03abc"])
    with tempfile.TemporaryDirectory(prefix="zoned-seeds-") as folder:
        with OldFolder(Path(folder) / "old", journal="delete") as old:
            old.file("z", OUTPUT, b"line\n" * 3)
            old.file("z", STATE, b"{}", meta='{"a":1}')
            old.block("b", agent="ada")
            old.definition("ada", name="Ada")
        for name in ("filestore.db", "objects.db"):
            yield b"\x01" + (Path(folder) / "old" / name).read_bytes()


def _portable() -> Iterator[bytes]:
    # A session, a file with two pieces of data, its end; the second is packed.
    yield b"\x00\x01\xff\x02\xff\x03\x04line\x04\x06line\n\n\x05\xff"
    yield b"\x00\x01\xff\x02\x00\x06\x04../x\x05\xff"
    written = io.BytesIO()
    writer = Writer(written)
    writer.session(SessionHead("ada", "s", 7, 5, "hi", 1, 1, None, True, 5, {"a": 1}))
    writer.file(FileHead("output", 5, 6, {}))
    writer.data(b"line\n" * 100)
    writer.end_file()
    writer.end()
    yield b"\x01" + written.getvalue()


_OUTPUT_ROW = [b"\x05", b"\x15", b"\x19", b"\x09", b"\x09", b"\x25", b"\x25", b"\x00"]
"""Zone z, file output, size 3, two times, no options, no meta, and a column nobody knows."""


def _row(table: int, values: list[bytes]) -> bytes:
    return bytes([table]) + b"".join(values)


_REAL = {
    "frames": _frames,
    "lines": _lines,
    "replay": _replay,
    "legacy": _legacy,
    "portable": _portable,
}
