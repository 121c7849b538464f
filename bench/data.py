"""Made-up but lifelike input, the same for the same seed: agents' NDJSON, and state snapshots.

Nothing here is repeated on purpose and nothing is noise: words follow a Zipf law, files of a
session are read and edited again and again as agents do, and ids, hashes and numbers are as random
as the real ones. Checked against real text once: in pieces of 256 KiB, zstd at level 3 makes 24 %
of this NDJSON and 27 % of the source of Python's standard library.
"""

from collections.abc import Iterator
from itertools import accumulate, islice
from random import Random
from uuid import UUID

import orjson

SESSION_BYTES = 2 << 20
"""A stream goes on with another session, with other files, after about this many bytes."""
FILES_PER_SESSION = 12
_COMMON = (  # noqa: SIM905 - quoting each of a hundred words would bury them
    "the to of and a in is it that for on with this be as are we not can from file will if test "
    "by an or at have function now so which error let me value code first should need then when "
    "return line use more already only there but add does run result path data change check read "
    "write call same what each one also name type next before after because these both into all "
    "its no was has store list new old instead still where here why while"
).split()
_SYLLABLES = (  # noqa: SIM905 - as above, one text reads better
    "ba be bi con de di ex fer gra im in ker la lo ma mi nor o par per pre qua re ri sa sen ser si "
    "sta str ta ter ti tra tri un ur va ver vi zo ing ion ity ment able al er est ive ous ly ate "
    "ize ance ful ward"
).split()
_SHAPES = (
    "    def {0}_{1}(self, {2}: int, {3}: str) -> {4}:",
    "        self._{0} = {1}({2}, {3}={4})",
    "        if {0}.{1} is None or {2} > {9}:",
    "            raise {5}Error(f\"{3} {{{0}}} is not {1} {2}\")",
    "        for {0} in self.{1}_{2}.values():",
    "            {0}[{1!r}] = await self.{2}.{3}({4}, limit={9})",
    "        return {0}.{1}({2} for {2} in {3} if {2}.{4})",
    "    # {0} {1} the {2} of {3}, because {4} is {1}",
    "from {0}.{1} import {5}{6}, {2}_{3}",
    "        assert {0}_{1} == {9}, {2}.{3}",
    "",
)  # fmt: skip


class Ndjson:
    """The stream-json output of one agent after another, endlessly."""

    def __init__(self, seed: int) -> None:
        self._rng = Random(seed)
        self._words, self._weights = _vocabulary(self._rng)
        self._now_ms = 1_790_000_000_000
        self._start_session()

    def lines(self) -> Iterator[bytes]:
        """One line after another, without line breaks."""
        while True:
            self._start_session()
            size = 0
            for event in self._session():
                line = orjson.dumps(event)
                size += len(line)
                yield line
                if size > SESSION_BYTES:
                    break

    def take(self, size: int) -> list[bytes]:
        """Lines that together have about `size` bytes with their line breaks."""
        found: list[bytes] = []
        for line in self.lines():
            found.append(line)
            size -= len(line) + 1
            if size <= 0:
                break
        return found

    def text(self, words: int) -> str:
        """Prose."""
        found = self._rng.choices(self._words, cum_weights=self._weights, k=words)
        for at in range(11, words, self._rng.randint(9, 17)):
            found[at] += self._rng.choice((".", ".", ",", ":", ".\n\n", "`"))
        return " ".join(found)

    # -- one session

    def _start_session(self) -> None:
        self._id = self._uuid()
        self._cwd = f"/srv/projects/{self._identifier()}-{self._identifier()}"
        self._files = {self._path(): self._source() for _ in range(FILES_PER_SESSION)}

    def _session(self) -> Iterator[dict[str, object]]:
        tools = ["Task", "Bash", "Glob", "Grep", "Read", "Edit", "Write", "WebFetch", "TodoWrite"]
        yield self._event("system", subtype="init", cwd=self._cwd, tools=tools, model="model-5")
        while True:
            yield self._assistant({"type": "text", "text": self.text(self._rng.randint(8, 160))})
            for _ in range(self._rng.randint(1, 5)):
                yield from self._tool()

    def _tool(self) -> Iterator[dict[str, object]]:
        name, given, answer = self._rng.choice((self._read, self._read, self._edit, self._bash))()
        tool_id = f"toolu_{self._rng.getrandbits(120):030x}"
        yield self._assistant({"type": "tool_use", "id": tool_id, "name": name, "input": given})
        content = [{"tool_use_id": tool_id, "type": "tool_result", "content": answer}]
        yield self._event("user", message={"role": "user", "content": content})

    def _read(self) -> tuple[str, dict[str, object], str]:
        path, source = self._any_file()
        offset = self._rng.randrange(len(source))
        shown = source[offset : offset + self._rng.randint(20, 200)]
        numbered = "\n".join(f"{offset + n:6}\t{line}" for n, line in enumerate(shown, 1))
        return "Read", {"file_path": path, "offset": offset, "limit": 200}, numbered

    def _edit(self) -> tuple[str, dict[str, object], str]:
        path, source = self._any_file()
        at = self._rng.randrange(len(source))
        old, new = source[at : at + 3], [self._code() for _ in range(self._rng.randint(1, 6))]
        around = source[max(0, at - 4) : at]
        source[at : at + 3] = new
        diff = [f" {line}" for line in around] + [f"-{x}" for x in old] + [f"+{x}" for x in new]
        given: dict[str, object] = {
            "file_path": path,
            "old_string": "\n".join(old),
            "new_string": "\n".join(new),
        }
        return "Edit", given, f"The file {path} has been updated.\n" + "\n".join(diff)

    def _bash(self) -> tuple[str, dict[str, object], str]:
        rng, (path, source) = self._rng, self._any_file()
        if rng.random() < 0.5:
            word = rng.choice(self._words)
            hits = sorted(rng.sample(range(len(source)), min(len(source), rng.randint(2, 30))))
            found = "\n".join(f"{path}:{at + 1}:{source[at]}" for at in hits)
            return "Bash", {"command": f"grep -rn {word} {self._cwd}"}, found
        runs = [
            f"tests/test_{self._identifier()}.py::test_{self._identifier()}_{self._identifier()} "
            f"{rng.choice(('PASSED', 'PASSED', 'PASSED', 'FAILED'))} [{n:3}%] {rng.random():.3f}s"
            for n in range(rng.randint(3, 60))
        ]
        given: dict[str, object] = {"command": f"pytest -q {path}", "description": self.text(6)}
        return "Bash", given, "\n".join(runs)

    # -- parts

    def _assistant(self, block: dict[str, object]) -> dict[str, object]:
        rng = self._rng
        usage = {
            "input_tokens": rng.randint(1, 40),
            "cache_creation_input_tokens": rng.randint(100, 9000),
            "cache_read_input_tokens": rng.randint(10_000, 180_000),
            "output_tokens": rng.randint(1, 2000),
            "service_tier": "standard",
        }
        message = {
            "id": f"msg_{rng.getrandbits(120):030x}",
            "type": "message",
            "role": "assistant",
            "model": "model-5",
            "content": [block],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage,
        }
        return self._event("assistant", message=message, parent_tool_use_id=None)

    def _event(self, kind: str, **fields: object) -> dict[str, object]:
        self._now_ms += self._rng.randint(5, 9000)
        ids = {"session_id": self._id, "uuid": self._uuid(), "timestamp": self._now_ms}
        return {"type": kind, **fields, **ids}

    def _any_file(self) -> tuple[str, list[str]]:
        # Agents come back to a few files most of the time.
        paths = list(self._files)
        path = paths[min(int(self._rng.expovariate(0.35)), len(paths) - 1)]
        return path, self._files[path]

    def _path(self) -> str:
        return f"{self._cwd}/{self._identifier()}/{self._identifier()}_{self._identifier()}.py"

    def _source(self) -> list[str]:
        return [self._code() for _ in range(self._rng.randint(80, 700))]

    def _code(self) -> str:
        words = self._rng.choices(self._words, cum_weights=self._weights, k=5)
        names = [words[0].title(), words[1].title()]
        shape = self._rng.choice(_SHAPES)
        return shape.format(*words, *names, 0, 0, self._rng.randint(0, 5000))

    def _identifier(self) -> str:
        return self._words[self._rng.randrange(len(_COMMON), len(self._words))]

    def _uuid(self) -> str:
        return str(UUID(int=self._rng.getrandbits(128), version=4))


def _vocabulary(rng: Random) -> tuple[list[str], list[float]]:
    made = {"".join(rng.choices(_SYLLABLES, k=rng.randint(2, 4))) for _ in range(6000)}
    words = [*_COMMON, *sorted(made, key=lambda word: (len(word), word))]
    return words, list(accumulate(1 / (rank + 5) for rank in range(len(words))))


def fixed_lines(seed: int, count: int, size: int) -> list[bytes]:
    """`count` different JSON lines of exactly `size` bytes with their line break."""
    source = Ndjson(seed)
    text = source.text(200).replace("\n", " ")
    found: list[bytes] = []
    for number in range(count):
        head = orjson.dumps({"type": "assistant", "uuid": source._uuid(), "seq": number})[:-1]
        room = size - len(head) - len(b',"text":""}\n')
        at = number * 7 % (len(text) - room)
        found.append(head + b',"text":"' + text[at : at + room].encode() + b'"}')
    return found


class Snapshots:
    """The state of a session, saved again and again.

    Each `grow` adds one node and moves `savedAt`.
    """

    def __init__(self, seed: int, size: int) -> None:
        self._source = Ndjson(seed)
        self._rng = Random(seed)
        self._nodes: list[bytes] = []
        self._now_ms = 1_790_000_000_000
        room = size
        while room > 0:
            self._nodes.append(self._node())
            room -= len(self._nodes[-1]) + 1

    def grow(self) -> bytes:
        """The next snapshot."""
        self._nodes.append(self._node())
        self._now_ms += self._rng.randint(200, 5000)
        head = {"schemaVersion": 1, "savedAt": self._now_ms, "highWaterMark": len(self._nodes)}
        return orjson.dumps(head)[:-1] + b',"nodes":[' + b",".join(self._nodes) + b"]}"

    def several(self, count: int) -> list[bytes]:
        """The next `count` snapshots."""
        return [self.grow() for _ in range(count)]

    def _node(self) -> bytes:
        rng = self._rng
        node = {
            "id": str(UUID(int=rng.getrandbits(128), version=4)),
            "parentId": len(self._nodes) - 1 if self._nodes else None,
            "kind": rng.choice(("user", "assistant", "tool", "tool", "thinking")),
            "status": rng.choice(("done", "done", "done", "failed")),
            "createdAt": self._now_ms + len(self._nodes),
            "tokens": rng.randint(5, 4000),
            "text": self._source.text(rng.randint(10, 220)),
        }
        return orjson.dumps(node)


def ndjson(seed: int, size: int, batch_bytes: int) -> Iterator[list[bytes]]:
    """About `size` bytes of NDJSON in batches of about `batch_bytes`."""
    source = Ndjson(seed).lines()
    while size > 0:
        batch: list[bytes] = []
        room = min(batch_bytes, size)
        while room > 0:
            batch += islice(source, 1)
            room -= len(batch[-1]) + 1
            size -= len(batch[-1]) + 1
        yield batch
