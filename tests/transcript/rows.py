"""Rows for tests: short to write, and any that hypothesis can think of."""

from typing import Any

from hypothesis import strategies as st

from filestore.transcript import Part, Role, Row, Transcript

SESSION = "s-1"
TIME = "2026-01-31T09:30:00.000Z"
REF = "media://sha256-" + "0af9" * 16


def text(said: str) -> Part:
    return {"type": "text", "text": said}


def call(name: str, args: Any = None, key: str = "c-1") -> Part:
    return {"type": "tool_call", "id": key, "name": name, "args": args}


def result(value: Any = None, key: str = "c-1") -> Part:
    return {"type": "tool_result", "toolCallId": key, "result": value}


def reasoning(thought: str) -> Part:
    return {"type": "reasoning", "text": thought}


def media() -> Part:
    return {"type": "media", "mimeType": "image/png", "source": {"kind": "handle", "ref": REF}}


def row(number: int, role: Role, *parts: Part | str) -> Row:
    """A row; a bare string is a part of text."""
    return {
        "id": f"m-{number}",
        "sessionId": SESSION,
        "sequenceNumber": number,
        "role": role,
        "content": [text(part) if isinstance(part, str) else part for part in parts],
        "timestamp": TIME,
    }


def rows(*said: tuple[Any, ...]) -> list[Row]:
    """Rows in order, each given as its role and parts."""
    return [row(number, role, *parts) for number, (role, *parts) in enumerate(said)]


def transcript(messages: list[Row], **more: Any) -> Transcript:
    fields: dict[str, Any] = {
        "session_id": SESSION,
        "agent_slug": "coder",
        "title": "A title",
        "created_at": TIME,
        "updated_at": TIME,
        "agent_snapshot": None,
        "messages": messages,
    }
    return Transcript(**(fields | more))


# What readers of YAML stumble over, beside what is random.
_TRAPS = [
    "", " ", "~", "-", "?", ":", "=", "<<", "yes", "No", "ON", "null", "Null", "true", "y", "1e3",
    "0x1f", "0o17", "017", "1_000", "12:30:45", "2026-01-31", "2026-01-31T09:00:00Z", ".inf",
    ".NaN", "+1", "1.", "a: b", "a:", "a #b", "# a", "- a", "? a", "&a", "*a", "!a", "%a", "@a",
    "`a", "|", ">", "{{", "{{{", "[a", "]", "---", "...", " a", "a ", "a\nb", "a\n\nb\n", "\ta",
    "a\r\nb", "\x00", "\x85", "\u2028", "\u2029", "\ufeff", "\U0001f600", "\ufffe", "'", '"', "\\",
    "é" * 1100, "k" * 1100, "word", "two words",
]  # fmt: skip
strings = (
    st.sampled_from(_TRAPS)
    | st.text(max_size=8)
    | st.text(alphabet="-:#?!&*{}[],|>'\"%@`0123456789.eExX+_ \n\tyYnN~<=", max_size=8)
)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**200), 2**200)
    | st.floats(allow_nan=False, allow_infinity=False)
    | strings
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(strings, inner, max_size=4),
    max_leaves=12,
)
parts = st.one_of(
    st.builds(text, strings),
    st.builds(reasoning, strings),
    st.builds(call, st.sampled_from(["read", "write", "yes", "1e3"]), values),
    st.builds(result, values),
    st.just(media()),
)
roles: st.SearchStrategy[Role] = st.sampled_from(["system", "user", "assistant", "tool"])


@st.composite
def some_rows(draw: st.DrawFn) -> list[Row]:
    """Rows in any order, with gaps in their numbers."""
    numbers = draw(st.lists(st.integers(0, 40), unique=True, max_size=8))
    return [row(number, draw(roles), *draw(st.lists(parts, max_size=3))) for number in numbers]


transcripts = st.builds(
    transcript,
    some_rows(),
    title=st.none() | strings,
    agent_slug=st.sampled_from(["coder", "null", "1e3", "a-b"]),
    agent_snapshot=st.none() | st.dictionaries(strings, values, max_size=3),
)
