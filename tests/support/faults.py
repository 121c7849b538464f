"""Faults from outside the process: strace that counts, records or breaks system calls; small disks;
waiting."""

import asyncio
import re
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

POLL_S = 0.05
CALLS = "openat,close,write,pwrite64,ftruncate,unlink,rename,fsync,fdatasync"


def strace(trace: Path, *, calls: str = CALLS, data_bytes: int = 0) -> list[str]:
    """The command prefix that records `calls`, and up to `data_bytes` of each string in hex."""
    return [
        "strace", "-f", "-qq", "-y", "-xx", "-s", str(data_bytes), "-o", str(trace),
        "-e", f"trace={calls}", "-e", "signal=none",
    ]  # fmt: skip


def inject(trace: Path, call: str, error: str, when: str, path: Path | None = None) -> list[str]:
    """The command prefix that lets `call` fail; `when` is `N` for once or `N+` for from then on."""
    aimed = ["-P", str(path)] if path is not None else []
    return [
        "strace", "-f", "-qq", "-o", str(trace), *aimed, "-e", f"trace={call}",
        "-e", f"inject={call}:error={error}:when={when}", "-e", "signal=none",
    ]  # fmt: skip


def injected(trace: Path) -> int:
    """How many calls were made to fail."""
    return trace.read_text(encoding="utf-8", errors="replace").count("(INJECTED)")


@dataclass(slots=True)
class Call:
    """One finished system call. `path` is that of its descriptor; bytes are decoded."""

    name: str
    path: str
    arguments: str
    result: int
    data: bytes = b""
    names: list[str] = field(default_factory=list)

    @property
    def offset(self) -> int:
        """The last argument, a number."""
        return int(self.arguments.rsplit(",", 1)[1])


_LINE = re.compile(r"(\d+) +(?:[\d:.]+ )?(.*)")
_WHOLE = re.compile(r"(\w+)\((.*)\) += (-?\d+)")
_WITH_DATA = ("write", "pwrite64", "writev", "sendto", "sendmsg")
_STRING = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')


def read_trace(trace: Path) -> Iterator[Call]:
    """The calls in the order in which they ended; only what ended took effect for sure."""
    unfinished: dict[str, str] = {}
    with trace.open(encoding="latin-1") as file:
        for line in file:
            matched = _LINE.match(line.rstrip("\n"))
            if matched is None:
                continue
            pid, rest = matched.groups()
            if rest.endswith("<unfinished ...>"):
                unfinished[pid] = rest.removesuffix("<unfinished ...>").rstrip()
                continue
            if rest.startswith("<... "):
                rest = unfinished.pop(pid, "") + rest.partition(" resumed>")[2]
            call = _WHOLE.match(rest)
            if call is not None:
                yield _call(call.group(1), call.group(2), int(call.group(3)))


def _call(name: str, arguments: str, result: int) -> Call:
    strings = [_unhex(found) for found in _STRING.findall(arguments)]
    opened = re.match(r"-?\w+<([^>]*)>", arguments)
    path = _path(opened.group(1)) if opened else ""
    names = [string.decode(errors="replace") for string in strings]
    data = b"".join(strings) if name in _WITH_DATA else b""
    return Call(name, path, arguments, result, data, [] if data else names)


def _path(shown: str) -> str:
    """With -xx strace writes the paths of descriptors in hexadecimal too."""
    return _unhex(shown).decode() if shown.startswith("\\x") else shown


def _unhex(shown: str) -> bytes:
    return bytes.fromhex(shown.replace("\\x", ""))


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """A tmpfs of `size` on `folder`; always taken away again."""
    folder.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        # Lazy: a test that failed may have left a descriptor open, and the mount must go all the
        # same.
        subprocess.run(["umount", "-l", folder], check=True)


def resize_disk(folder: Path, size: str) -> None:
    subprocess.run(["mount", "-o", f"remount,size={size}", folder], check=True)


async def until(
    attempt: Callable[[], Awaitable[bool]], timeout_s: float, poll_s: float = POLL_S
) -> float:
    """Try again and again until it is True. Returns how long that took; fails after `timeout_s`."""
    started = time.monotonic()
    while not await attempt():
        waited = time.monotonic() - started
        assert waited < timeout_s, f"still not so after {waited:.1f} s"
        await asyncio.sleep(poll_s)
    return time.monotonic() - started


def until_sync(attempt: Callable[[], bool], timeout_s: float, poll_s: float = POLL_S) -> float:
    """The same for tests without an event loop."""
    started = time.monotonic()
    while not attempt():
        waited = time.monotonic() - started
        assert waited < timeout_s, f"still not so after {waited:.1f} s"
        time.sleep(poll_s)
    return time.monotonic() - started
