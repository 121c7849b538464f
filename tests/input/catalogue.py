"""The catalogue of bad input: what is given, and what must come of it. Data only.

One row is one input. `wanted` is the kind of the error (messages and calls), the code with which a
connection is closed (frames), the status (heads of HTTP requests) or the exit code (commands).
Inputs that look bad and are taken stand in `GOOD_CALLS`, with the reason. What other tests own is
in `ELSEWHERE`, so that this is the place to look for any of it.
"""

from typing import Any, NamedTuple

import msgpack

from filestore.journal.model import SESSION_ID_CHARS_MAX
from tests.support.daemon import CLOSE, PING, TEXT, frame

HEALTH: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "srv:health"}
HEALTH_JSON = b'{"jsonrpc":"2.0","id":1,"method":"srv:health"}'


class Message(NamedTuple):
    """A payload that is no message. `told`: part of what the error says."""

    name: str
    payload: bytes
    told: str = ""


JSON = [
    Message("nothing", b"", "the message is empty"),
    Message("a blank", b" ", "char 0"),
    Message("cut off", b'{"a": 1', "char 7"),
    Message("no JSON", b"nonsense", "char"),
    Message("byte order mark", b"\xef\xbb\xbf" + HEALTH_JSON, "byte order mark"),
    Message("UTF-16", HEALTH_JSON.decode().encode("utf-16"), "byte 0 is not UTF-8"),
    Message("byte that is no UTF-8", b'{"a":"\xff"}', "byte 6 is not UTF-8"),
    Message("overlong UTF-8", b'"\xc0\xaf"', "byte 1 is not UTF-8"),
    Message("surrogate in UTF-8", b'"\xed\xa0\x80"', "byte 1 is not UTF-8"),
    Message("half of a pair", b'{"a":"\\ud800"}', "char 6"),
    Message("pair the wrong way round", b'{"a":"\\udc00\\ud800"}', "char 6"),
    Message("raw NUL", b'"raw \x00 nul"', "char"),
    Message("raw line break", b'"raw \n newline"', "char"),
    Message("NaN", b"[NaN]", "char 1"),
    Message("infinity", b"[Infinity]", "char 1"),
    Message("negative infinity", b"[-Infinity]", "char 2"),
    Message("1e999", b"[1e999]", "infinity"),
    Message("5000 digits", b"[" + b"9" * 5000 + b"]", "infinity"),
    Message("leading zero", b"[01]", "char 1"),
    Message("plus sign", b"[+1]", "char 1"),
    Message("no leading zero", b"[.5]", "char 1"),
    Message("hexadecimal", b"[0x10]", "char 2"),
    Message("trailing comma", b"[1,]", "char 2"),
    Message("single quotes", b"{'a':1}", "char 1"),
    Message("two documents", b"{} {}", "char 3"),
    Message("comment", b"// c\n{}", "char 0"),
    Message("lists without end", b"[" * 100_000),
    Message("objects without end", b'{"a":' * 100_000),
    Message("100 000 lists in each other", b"[" * 100_000 + b"]" * 100_000),
]

MESSAGEPACK = [
    Message("nothing", b""),
    Message("the byte that is never used", b"\xc1"),
    Message("array of 4 294 967 295", b"\xdd\xff\xff\xff\xff"),
    Message("map of 4 294 967 295", b"\xdf\xff\xff\xff\xff"),
    Message("map of 65 535", b"\xde\xff\xff"),
    Message("text of 4 GiB", b"\xdb\xff\xff\xff\xff"),
    Message("bytes of 4 GiB", b"\xc6\xff\xff\xff\xff"),
    Message("extension of 4 GiB", b"\xc9\xff\xff\xff\xff\x01"),
    Message("extension nobody knows", b"\xd4\x01\x00", "extension type 1"),
    Message("another", msgpack.packb(msgpack.ExtType(5, b"x")), "extension type 5"),
    Message("arrays of 10 000 in each other", b"\xdc\x27\x10" * 1023),
    Message("arrays without end", b"\x91" * 100_000),
    Message("maps without end", b"\x81\xa1a" * 100_000),
    Message("number as a name", b"\x81\x01\x02"),
    Message("two values", b"\x80\x80", "extra"),
    Message("text that is no UTF-8", b"\xa2\xc3\x28", "position 0"),
    Message("cut off", b"\x92\x01", "incomplete"),
]


DEEP: Any = []
for _ in range(200):
    DEEP = [DEEP]
"""Deep, but no parser's limit: nothing nested is stored or sent back, so none of ours is needed."""


class Request(NamedTuple):
    """A value that is no request, the id of the answer, and the kind."""

    name: str
    value: Any
    number: Any
    wanted: str


REQUESTS = [
    Request("a number", 5, None, "INVALID_REQUEST"),
    Request("a text", "text", None, "INVALID_REQUEST"),
    Request("null", None, None, "INVALID_REQUEST"),
    Request("an empty object", {}, None, "INVALID_REQUEST"),
    Request("an empty batch", [], None, "INVALID_REQUEST"),
    Request("a batch of 101", [HEALTH] * 101, None, "TOO_LARGE"),
    Request("list as id", HEALTH | {"id": [1]}, None, "INVALID_REQUEST"),
    Request("object as id", HEALTH | {"id": {}}, None, "INVALID_REQUEST"),
    Request("boolean as id", HEALTH | {"id": True}, None, "INVALID_REQUEST"),
    Request("fraction as id", HEALTH | {"id": 1.5}, None, "INVALID_REQUEST"),
    Request("-0.0 as id", HEALTH | {"id": -0.0}, None, "INVALID_REQUEST"),
    Request("long id", HEALTH | {"id": "x" * 257}, None, "INVALID_REQUEST"),
    Request("id of 1 MiB", HEALTH | {"id": "x" * (1 << 20)}, None, "INVALID_REQUEST"),
    Request("other version", HEALTH | {"jsonrpc": "1.0"}, 1, "INVALID_REQUEST"),
    Request("version as number", HEALTH | {"jsonrpc": 2.0}, 1, "INVALID_REQUEST"),
    Request("no version", {"id": 1, "method": "srv:health"}, 1, "INVALID_REQUEST"),
    Request("no method", {"jsonrpc": "2.0", "id": 1}, 1, "INVALID_REQUEST"),
    Request("number as method", HEALTH | {"method": 5}, 1, "INVALID_REQUEST"),
    Request("list as method", HEALTH | {"method": ["srv:health"]}, 1, "INVALID_REQUEST"),
    Request("unknown method", HEALTH | {"method": "srv:nothing"}, 1, "UNKNOWN_METHOD"),
    Request("reserved method", HEALTH | {"method": "rpc.discover"}, 1, "UNKNOWN_METHOD"),
    Request("method in capitals", HEALTH | {"method": "SRV:HEALTH"}, 1, "UNKNOWN_METHOD"),
    Request("method with a NUL", HEALTH | {"method": "srv:health\0"}, 1, "UNKNOWN_METHOD"),
    Request("no params but a list", HEALTH | {"params": []}, 1, "INVALID_PARAMS"),
    Request("params by position", HEALTH | {"params": ["a"]}, 1, "INVALID_PARAMS"),
    Request("text as params", HEALTH | {"params": "a"}, 1, "INVALID_PARAMS"),
    Request("number as params", HEALTH | {"params": 0}, 1, "INVALID_PARAMS"),
    Request("200 levels of params", HEALTH | {"params": {"a": DEEP}}, 1, "INVALID_PARAMS"),
]

NAMES: list[str] = [
    "", " ", ".", "..", "a.", "a ", " a", "../../etc/passwd", "..\\x", "%2e%2e%2f", "a%00b", "/etc",
    "C:\\x", "\\\\srv\\x", "~root", "a/b", "a:b", ":memory:", "file:x?mode=memory",
    "a\0b", "a\nb", "a\n", "a\tb", "\x1b[31m", "\x9b31m", "\u202eabc", "a\u200bb", "\ufeffa",
    "\u2028", "\u00e9", "e\u0301", "\u2024\u2024\uff0fetc", "\u0430", "\u212a", "\u0661",
    "zone'; DROP TABLE t;--", '"', "`id`", "$(id)", "%s", "{0}", "a*", "a%", "x" * 129, "x" * 1025,
]  # fmt: skip
"""None of them is the id of an agent."""
ZONES: list[str] = [
    "", "x", "ada", "agent:ada", "agent:ada:current", "agent:ada:archive", "agent:ada:archive:",
    "agent::archive:1", "AGENT:ada:archive:1", "agent:a\0:archive:1", "agent:\u202e:archive:1",
    "agent:../x:archive:1", f"agent:{'x' * 129}:archive:1",
    *(f"agent:ada:archive:{ms}" for ms in (
        "01", "-1", "+1", "1.0", "1 ", "1\n", "1:2", "1e3", str((1 << 63) - 1), "9" * 500, "\u0661",
        "1'; DROP TABLE t;--",
    )),
]  # fmt: skip
"""None of them is the zone of an archive."""
NO_TEXTS: list[Any] = [0, 1, -1, 1.5, True, [], ["a"], {}, {"base64": "YQ=="}]
NO_COUNTS: list[Any] = [-1, 1 << 63, (1 << 64) - 1, -(1 << 63), 1.0, 0.5, 1e300, -0.0, True, False,
                        "10", "", [], {}]  # fmt: skip
NO_BOOLEANS: list[Any] = [0, 1, "true", "", [], 1.0]
NO_BYTES: list[Any] = [
    5, True, [], ["a"], {}, {"base64": 5}, {"base64": "a"}, {"base64": "YQ"}, {"base64": "_-8="},
    {"base64": "YQ==\n"}, {"base64": "\u00e9"}, {"base64": "", "more": 1}, {"BASE64": ""},
]  # fmt: skip
NO_SESSIONS: list[str] = ["", "a\0", "\u202e", "\u200b", "a\nb", "x" * (SESSION_ID_CHARS_MAX + 1)]
"""None of them can become the id of a session."""


class Call(NamedTuple):
    """A call that is refused by kind, and the parameter that is named."""

    method: str
    params: dict[str, Any]
    wanted: str
    field: str | None = None


READ, WRITE, APPEND = ("agent:session:read", "agent:session:write_state",
                       "agent:session:append_output")  # fmt: skip
ZONE = "agent:ada:archive:1"


def calls() -> list[Call]:
    """Calls whose params are wrong."""
    agent: dict[str, Any] = {"definition_id": "ada"}
    fork = {**agent, "to_definition_id": "bob"}
    found = [Call(READ, {"definition_id": name}, "INVALID_DEFINITION_ID", "definition_id")
             for name in NAMES]  # fmt: skip
    found += [Call("agent:session:read_archive", {"archive_zoneid": zone}, "INVALID_ZONE",
                   "archive_zoneid") for zone in ZONES]  # fmt: skip
    # An empty one means an agent that has no session yet.
    guards = [*NO_TEXTS, *filter(None, NO_SESSIONS)]
    wrong: list[tuple[str, dict[str, Any], str, list[Any]]] = [
        (READ, {}, "definition_id", NO_TEXTS),
        ("agent:session:read_archive", {}, "archive_zoneid", NO_TEXTS),
        (WRITE, {**agent, "content": "x"}, "session_id", guards),
        (APPEND, {**agent, "line": "x"}, "session_id", guards),
        ("agent:session:archive", agent, "session_id", guards),
        (WRITE, {**agent, "content": "x"}, "if_version", NO_COUNTS),
        (WRITE, agent, "content", NO_BYTES),
        (APPEND, agent, "line", NO_BYTES),
        (APPEND, {**agent, "line": "x"}, "at_line", NO_COUNTS),
        (APPEND, agent, "lines", ["x", {}, 5, ["x", None], ["x", 5], [["x"]]]),
        ("agent:session:list_archives", agent, "limit", NO_COUNTS),
        ("agent:session:list_archives", agent, "before", NO_COUNTS),
        ("agent:session:read_output", agent, "from_line", NO_COUNTS),
        ("agent:session:fork", fork, "archive_first", NO_BOOLEANS),
        ("agent:session:fork", fork, "new_session_id", [*NO_TEXTS, *NO_SESSIONS]),
        ("agent:session:subscribe", agent, "since", NO_COUNTS),
        ("agent:session:replay", agent, "provider", [*NO_TEXTS, "", "CLAUDE", "\x1b[31m"]),
        ("agent:session:unsubscribe", {}, "subscription", NO_COUNTS),
    ]
    for method, params, name, values in wrong:
        found += [Call(method, {**params, name: value}, "INVALID_PARAMS", name) for value in values]
    return [*found, *_combined(agent)]


def _combined(agent: dict[str, Any]) -> list[Call]:
    both = {**agent, "archive_zoneid": ZONE}
    return [
        Call(READ, {}, "INVALID_PARAMS", "definition_id"),
        Call(READ, {"definition_id": None}, "INVALID_PARAMS", "definition_id"),
        Call(READ, {**agent, "definiton_id": "ada"}, "INVALID_PARAMS", "definiton_id"),
        Call(READ, {**agent, "\u202e\0": 1}, "INVALID_PARAMS", "\u202e\0"),
        Call(READ, {**agent, "x" * 5000: 1}, "INVALID_PARAMS", "x" * 60),
        Call(READ, {**agent, "Definition_id": "ada"}, "INVALID_PARAMS", "Definition_id"),
        Call(WRITE, agent, "INVALID_PARAMS", "content"),
        Call(WRITE, {**agent, "content": "x", "if_version": 99, "session_id": "other"},
             "VERSION_CONFLICT"),
        Call(APPEND, agent, "INVALID_PARAMS", "line"),
        Call(APPEND, {**agent, "line": "x", "lines": ["x"]}, "INVALID_PARAMS", "line"),
        Call(APPEND, {**agent, "line": "x", "at_line": 7}, "VERSION_CONFLICT"),
        Call("agent:session:read_output", both, "INVALID_PARAMS", "definition_id"),
        Call("agent:session:read_output", {}, "INVALID_PARAMS", "definition_id"),
        Call("agent:session:read_output", {**agent, "from_line": 1, "tail": 1}, "INVALID_PARAMS",
             "tail"),
        Call("agent:session:read_output", {"definition_id": ZONE}, "INVALID_DEFINITION_ID",
             "definition_id"),
        Call("agent:session:fork", {**both, "to_definition_id": "bob"}, "INVALID_PARAMS",
             "definition_id"),
        Call("agent:session:fork", {**agent, "to_definition_id": "a/b"}, "INVALID_DEFINITION_ID",
             "to_definition_id"),
        Call("agent:list", {"after": "\0"}, "INVALID_DEFINITION_ID", "after"),
        Call("agent:session:restore", {"archive_zoneid": ZONE}, "NOT_FOUND"),
        Call("agent:session:unsubscribe", {"subscription": (1 << 63) - 1}, "NOT_FOUND"),
        Call("srv:migrate", {}, "UNAUTHORIZED"),
    ]  # fmt: skip


class Taken(NamedTuple):
    """A call that looks bad and is served, and why."""

    why: str
    method: str
    params: dict[str, Any]


_ODD_IDS = [
    "-rf",
    "--help",
    "con",
    "nul",
    "sqlite_master",
    "A",
    "a",
    "0",
    "__proto__",
    "constructor",
]
GOOD_CALLS = [
    *(Taken("an id is a value, never a file, a table or a key", READ, {"definition_id": name})
      for name in _ODD_IDS),
    Taken("a page may be as large as it likes; the store bounds it", "agent:session:list_archives",
          {"definition_id": "ada", "limit": (1 << 63) - 1, "before": (1 << 53) + 1}),
    Taken("0 means the usual", "agent:session:list_archives", {"definition_id": "ada", "limit": 0}),
    Taken("past the end there is nothing", "agent:session:read_output",
          {"definition_id": "ada", "from_line": (1 << 63) - 1, "limit": (1 << 63) - 1}),
    Taken("a position of the future is a gap", "agent:session:subscribe",
          {"definition_id": "ada", "since": (1 << 63) - 1}),
    Taken("the same bytes change nothing, whatever the guard", WRITE,
          {"definition_id": "ada", "content": "odd \0 \u2028 \ufeff content", "if_version": 99}),
    Taken("null is as good as nothing", WRITE,
          {"definition_id": "ada", "content": "x", "if_version": None}),
    Taken("the first page", "agent:list", {"after": "", "limit": 1}),
]  # fmt: skip

CONTENTS: list[bytes] = [
    b"", b"\0", b"a\0b", b"\xff\xfe", b"\xed\xa0\x80", b"\xef\xbb\xbf{}",
    "\u2028\u2029\x85".encode(),
    b'{"a":1,"a":2}', b'{"__proto__":{"x":1}}', b"[" * 2000, b"1e999", b"18446744073709551616",
    b'"\\ud800"', b"NaN", b"\r\n", "e\u0301 \u00e9".encode(), b"12",
]  # fmt: skip
"""Content is bytes: each comes back as it was, for it is never parsed to be stored."""


class Bytes(NamedTuple):
    """Bytes on an open WebSocket, and the code with which it is closed."""

    name: str
    data: bytes
    wanted: int


FRAMES = [
    Bytes("unmasked", frame(TEXT, HEALTH_JSON, key=None), 1002),
    Bytes("reserved bit 1, as for compression", frame(TEXT, HEALTH_JSON, reserved=0x40), 1002),
    Bytes("reserved bit 2", frame(TEXT, HEALTH_JSON, reserved=0x20), 1002),
    Bytes("reserved bit 3", frame(PING, b"", reserved=0x10), 1002),
    Bytes("unknown opcode", frame(3, b""), 1002),
    Bytes("unknown control", frame(11, b""), 1002),
    Bytes("long ping", frame(PING, b"x" * 126), 1002),
    Bytes("long close", frame(CLOSE, b"x" * 200), 1002),
    Bytes("ping in parts", frame(PING, b"", is_final=False), 1002),
    Bytes("continuation of nothing", frame(0, b"x"), 1002),
    Bytes("two beginnings", frame(TEXT, b"{", is_final=False) + frame(TEXT, b"}"), 1002),
    Bytes("a terabyte", frame(TEXT, b"", claimed=1 << 40), 1009),
    Bytes("all bits of a length", frame(TEXT, b"", claimed=(1 << 64) - 1), 1009),
    Bytes("one more than allowed", frame(TEXT, b"", claimed=(64 << 20) + 1), 1009),
]


class Head(NamedTuple):
    """What begins a connection, and the status. HEAD stands for the request of /health with Host
    and token.
    """

    name: str
    data: str
    wanted: int


_LINES = "Host: 127.0.0.1:PORT\r\nAuthorization: Bearer TOKEN\r\n"
_HEAD = f"GET /health HTTP/1.1\r\n{_LINES}"


def _with(line: str) -> str:
    return f"{_HEAD}{line}\r\n\r\n"


_CHUNKED = _with("Transfer-Encoding: chunked").replace("GET", "POST")
HEADS = [
    Head("TLS", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + "\0" * 200, 400),
    Head("NULs", "\0" * 50, 400),
    Head("a word", "hello\r\n\r\n", 400),
    Head("nothing", "\r\n\r\n", 400),
    Head("no version", "GET /health\r\n\r\n", 400),
    Head("a proxy's request for us", f"GET http://127.0.0.1:PORT/ HTTP/1.1\r\n{_LINES}\r\n", 400),
    Head("a proxy's request", f"GET http://evil.example/ HTTP/1.1\r\n{_LINES}\r\n", 400),
    Head("asterisk", f"OPTIONS * HTTP/1.1\r\n{_LINES}\r\n", 400),
    Head("tunnel", f"CONNECT 127.0.0.1:PORT HTTP/1.1\r\n{_LINES}\r\n", 400),
    Head("HTTP/2.0", f"GET /health HTTP/2.0\r\n{_LINES}\r\n", 400),
    Head("HTTP/0.9", f"GET /health HTTP/0.9\r\n{_LINES}\r\n", 400),
    Head("HTTP/2 as it begins", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    Head("two blanks", f"GET  /health HTTP/1.1\r\n{_LINES}\r\n", 400),
    Head("blank in the target", f"GET /he alth HTTP/1.1\r\n{_LINES}\r\n", 400),
    Head("control in the target", f"GET /hea\x01lth HTTP/1.1\r\n{_LINES}\r\n", 400),
    Head("unknown method", f"X /health HTTP/1.1\r\n{_LINES}\r\n", 400),
    Head("two Hosts", _with("Host: 127.0.0.1:PORT"), 400),
    Head("another Host", _with("host: evil.example"), 400),
    Head("two Origins", _with("Origin: http://a\r\nOrigin: http://b"), 400),
    Head("no colon", _with("No colon"), 400),
    Head("no name", _with(": no name"), 400),
    Head("blank before the colon", _with("Host : evil.example"), 400),
    Head("folded line", _with(" folded: line"), 400),
    Head("bare line feed", _with("X: a\nHost: evil.example"), 400),
    Head("bare carriage return", _with("X: a\rHost: evil.example"), 400),
    Head("NUL in a value", _with("X: a\0b"), 400),
    Head("two lengths", _with("Content-Length: 5\r\nContent-Length: 5"), 400),
    Head("length and chunks", _with("Content-Length: 5\r\nTransfer-Encoding: chunked"), 400),
    Head("negative length", _with("Content-Length: -1"), 400),
    Head("expecting too much", _with("Expect: the unexpected"), 400),
    Head("chunks that are none", _CHUNKED + "zz\r\n", 400),
    Head("a chunk of 2 to the 80", _CHUNKED + "ffffffffffffffffffff\r\n", 400),
    Head("a negative chunk", _CHUNKED + "-1\r\n", 400),
    Head("chunks in chunks", _with("Transfer-Encoding: chunked, chunked"), 400),
    Head("more than was told", _with("Content-Length: 5") + "abcdefgh", 400),
    Head("no Host", "GET /health HTTP/1.1\r\nAuthorization: Bearer TOKEN\r\n\r\n", 403),
    Head("header of 20 kB", _with("X: " + "a" * 20_000), 431),
    Head("10 000 headers", _with("\r\n".join(["X: y"] * 10_000)), 431),
    Head("path of 20 kB", f"GET /{'a' * 20_000} HTTP/1.1\r\n{_LINES}\r\n", 431),
    Head("path without end", f"GET /{'a' * 20_000}", 431),
    Head("a body where none is taken", _HEAD.replace("GET", "POST") + "Content-Encoding: gzip\r\n"
         "Content-Length: 10\r\n\r\n" + "x" * 10, 405),
    Head("dots in percent signs", _HEAD.replace("/health", "/%2e%2e%2fetc") + "\r\n", 404),
    Head("NUL in percent signs", _HEAD.replace("/health", "/health%00") + "\r\n", 404),
]  # fmt: skip


class Command(NamedTuple):
    """Words on a command line, what is on stdin and in the environment; the exit code, and part of
    the one line on stderr. FOLDER stands for an empty folder.
    """

    name: str
    words: list[str]
    wanted: int
    told: str = ""
    stdin: bytes = b""
    environ: dict[str, str] = {}  # noqa: RUF012 - never changed; NamedTuples have no factories


COMMANDS = [
    *(Command(f"id {name!a}"[:40], ["show", "--", name], 2, "defId must be")
      for name in ("", "../x", "a b", "\u202e", "\x1b[31m", "\udcff", "a\n")),
    *(Command(f"count {value!a}", ["agents", "-n", value], 2, "must be a whole number")
      for value in ("", "-1", "1.5", "1e3", "\u0663", "9" * 20, "0x10", " 1", "true")),
    Command("id like a flag", ["show", "-rf"], 2, "no option"),
    Command("the same behind --", ["show", "--", "-rf"], 1, "no session"),
    Command("zone with a zero in front", ["restore", "agent:ada:archive:01"], 2, "zone must be"),
    Command("folder as a snapshot", ["write-state", "ada", "FOLDER"], 1, "Is a directory"),
    Command("folder as a stream", ["replay", "FOLDER"], 1, "FOLDER: Is a directory"),
    Command("no file", ["replay", "./nowhere"], 1, "No such file"),
    Command("another provider", ["replay", "-", "--provider", "x"], 2, "must be claude or"),
    Command("a snapshot without end", ["write-state", "ada", "/dev/zero"], 1, "over the limit"),
    Command("a host for everyone", ["serve", "--host", "0.0.0.0"], 2, "only loopback"),
    Command("a host by name", ["serve", "--host", "evil.example"], 2, "only loopback"),
    Command("a port that is none", ["serve", "--port", "65536"], 2, "from 0 to 65535"),
    Command("a long socket", ["serve", "--socket", "/tmp/" + "x" * 104], 2, "107 bytes"),
    Command("setting nobody knows", ["agents"], 2, "ZONED_PROT", environ={"ZONED_PROT": "1"}),
    Command("setting of another type", ["agents"], 2, "ZONED_PORT", environ={"ZONED_PORT": "1e3"}),
    Command("setting that is empty", ["agents"], 2, "ZONED_PORT", environ={"ZONED_PORT": ""}),
    Command("setting with an escape", ["agents"], 2, "\\x1b", environ={"ZONED_SYNC": "\x1b[31m"}),
]  # fmt: skip

ENVIRONMENTS: list[dict[str, str]] = [
    {"LC_ALL": "C"}, {"LC_ALL": "nonsense"}, {"TZ": "nonsense/../x"}, {"TZ": "<+99>99"},
    {"HOME": "/nonexistent"}, {"COLUMNS": "999999999999"}, {"COLUMNS": "-1"}, {"TERM": ""},
    {"PYTHONIOENCODING": "ascii"}, {"PYTHONUTF8": "0"}, {"PAGER": "/nonexistent"},
]  # fmt: skip
"""In each of them a command works."""

ELSEWHERE: dict[str, str] = {
    "names that stand twice: the last one counts": "tests/rpc/test_envelope.py",
    "too many values in a message": "tests/rpc/test_envelope.py",
    "lines, content and messages over their limits": "tests/rpc/test_envelope.py",
    "the same id twice in flight: both are answered": "tests/rpc/test_envelope.py",
    "guards: stale versions, sessions and lines": "tests/sessions/test_guards.py",
    "frames cut anywhere": "tests/srv/test_websocket.py",
    "slow, deaf and too many clients": "tests/rpc/test_slow_clients.py",
    "Host, Origin, token": "tests/http/test_access.py",
    "names of zones and files": "tests/contract/test_names.py",
    "ids and zones in the store's own calls": "tests/sessions/test_names.py",
    "what a line is": "tests/filestore/test_lines.py",
    "torn, blank, long and strange lines": "tests/replay/test_fold.py",
    "files that are no database, newer, foreign, cut": "tests/contract/test_format.py",
    "flipped bytes of a database": "tests/crash/test_damage.py",
    "old databases with any damage": "tests/migrations/test_import_legacy.py",
    "exported sessions: cut, changed, newer, hostile": "tests/sessions/test_portable.py",
    "backups: damaged, newer, none": "tests/cli/test_backup.py",
    "zoned.toml and flags": "tests/srv/test_config.py",
    "folders, homes, locales": "tests/cli/test_folder.py",
    "closed and full outputs": "tests/cli/test_invocation.py",
    "escapes on a terminal": "tests/cli/test_terminal.py",
    "what stands in the place of our files": "tests/srv/test_daemon_life.py",
    "objects with odd keys in the browser": "tests/client/zoned.test.mjs",
}
