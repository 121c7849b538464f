"""The operators' methods of what agents say of their sessions, and ask about the past: those behind
MCP.

Documents travel as JSON in a text (`content`), both ways: they may hold whole numbers of any size,
and objects with any number of keys, which come back as they were.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from filestore.errors import InvalidArgumentError
from filestore.sessions.names import parse_session
from srv.config import Config
from srv.rpc.method import Caller, Json, Lane, Method
from srv.rpc.params import Field, Spec, content, count, text, wrong

if TYPE_CHECKING:
    # Small commands must not wait for their import.
    from filestore.records.observations import Wanted
    from filestore.records.slices import Said

WAIT_MS_MAX = 60_000
FIRST_MS, LAST_MS = -(1 << 62), 1 << 62
_SESSION: Mapping[str, Field] = {"session_id": text}
_CHOICES: Mapping[str, tuple[str, ...]] = {
    "order_by": ("started_at", "updated_at"),
    "order": ("asc", "desc"),
    "status": ("active", "completed", "cancelled", "error"),
}


def methods(config: Config) -> Mapping[str, Method]:
    """The methods by name."""
    submit = {"content": content(config.message_bytes_max), "call_id": text}
    wanted = {"limit": count, "order_by": one_of, "order": one_of}
    timeline = {"entity_id": text, "start_date": text, "end_date": text}
    restore = {**_SESSION, "name": any_text}
    read = {**_SESSION, "before": count, "chars_max": count}
    wait = {"known": states, "timeout_ms": count}
    filters = {"status": one_of, "agent_name": any_text}
    page = {"before": count, "limit": count}
    return {
        # No agents: its one transaction decides for itself.
        "session:submit": _operators(Spec(submit, ("content",)), _submit, "write"),
        "session:history": _operators(Spec({**_SESSION, **wanted}), _history),
        "session:timeline": _operators(Spec(timeline, ("entity_id",)), _timeline),
        "session:restore_checkpoint": _operators(Spec(restore, tuple(restore)), _checkpoint),
        "session:overview": _operators(Spec({**wanted, **filters}), _overview),
        "session:index": _operators(Spec(page), _index),
        "session:read": _operators(Spec(read, ("session_id",)), _read),
        # Not of the lane of reads: who waits shall not keep others from reading.
        "session:wait": _operators(Spec(wait, ("known",)), _wait, "write"),
    }


def _operators(spec: Spec, run: Callable[..., object], lane: Lane = "read") -> Method:
    return Method(spec, run, lane, is_operators=True)


# -- their parameters


def any_text(name: str, value: object) -> str:
    """A text of any length."""
    if type(value) is not str:
        raise wrong(name, f"{name} must be a text")
    return value


def one_of(name: str, value: object) -> str:
    """One of the words that this parameter may be."""
    if value not in _CHOICES[name]:
        raise wrong(name, f"{name} must be one of {', '.join(_CHOICES[name])}")
    return str(value)


def states(name: str, value: object) -> dict[str, str]:
    """Sessions and what is known of them."""
    if type(value) is not dict or not all(type(each) is str for each in value.values()):
        raise wrong(name, f"{name} must be an object of texts")
    return value


# -- what they call


async def _submit(caller: Caller, content: bytes, call_id: str | None = None) -> Json:
    from filestore.journal.bodies import load

    try:
        document = load(content)
    except ValueError as error:
        raise wrong("content", f"content is not valid JSON: {error}") from error
    done = await caller.service.observations.submit(document, call_id=call_id)
    return done._asdict()


async def _history(caller: Caller, session_id: str | None = None, **wanted: object) -> Json:
    observations = caller.service.observations
    if session_id is not None:
        return _content(await observations.entity(session_id))
    return _content(await observations.entities(_wanted(wanted)))


async def _overview(caller: Caller, **wanted: object) -> Json:
    return _content(await caller.service.observations.sessions(_wanted(wanted)))


async def _index(caller: Caller, before: int | None = None, limit: int = 100) -> Json:
    shown, more = await caller.service.observations.page(max(1, min(limit, 1000)), before)
    answer: dict[str, object] = {"sessions": shown}
    if more is not None:
        answer["next"] = more
    return answer


async def _timeline(
    caller: Caller, entity_id: str, start_date: str = "", end_date: str = ""
) -> Json:
    from filestore.records.timeline import Window

    window = Window(
        _bound("start_date", start_date, is_end=False) if start_date else FIRST_MS,
        _bound("end_date", end_date, is_end=True) if end_date else LAST_MS,
    )
    return _content(await caller.service.observations.timeline(entity_id, window))


async def _checkpoint(caller: Caller, session_id: str, name: str) -> Json:
    return _content(await caller.service.observations.checkpoint(session_id, name))


async def _read(
    caller: Caller, session_id: str, before: int | None = None, chars_max: int | None = None
) -> Json:
    from filestore.records.slices import CHARS_DEFAULT, CHARS_MAX, cut

    chars_max = min(CHARS_DEFAULT if chars_max is None else chars_max, CHARS_MAX)
    observations = caller.service.observations
    session = await observations.short(session_id)
    found = await observations.messages(session_id, before_seq=before, chars_max=chars_max)
    if not session["messages"] and "zone" in session:
        found = await _of_stream(caller, session["zone"], before, chars_max)
    return _content({"session": session} | cut(found, chars_max))


def _wait(caller: Caller, known: dict[str, str], timeout_ms: int = 0) -> Awaitable[Json]:
    timeout_s = min(timeout_ms, WAIT_MS_MAX) / 1000
    return caller.service.watchers.wait(known, timeout_s=timeout_s)


# -- parts


def _wanted(given: Mapping[str, object]) -> "Wanted":
    from filestore.records.observations import Wanted

    return Wanted(**given)  # type: ignore[arg-type]  # checked by the fields


def _bound(name: str, given: str, *, is_end: bool) -> int:
    from filestore.records.timeline import bound

    try:
        return bound(given, is_end=is_end)
    except InvalidArgumentError as error:
        raise wrong(name, f"{name}: {error.message}") from error


def _content(value: object) -> Json:
    from filestore.journal.bodies import to_json

    return {"content": to_json(value).decode()}


async def _of_stream(caller: Caller, zone: str, before: int | None, chars_max: int) -> "list[Said]":
    """A session of a pane as messages: the nodes that its stream shows, numbered; the newest ones
    before a number.
    """
    from filestore.records.slices import Newest, said_of_node

    place = parse_session(zone)
    assert place is not None, zone
    replays = caller.service.sessions.replays
    newest = Newest(chars_max)
    seq = 0
    after: int | None = 0
    while after is not None and (before is None or seq < before):
        page = await replays.read(place[0] if place[1] is None else zone, None, after=after)
        for node in page.nodes:
            if before is None or seq < before:
                newest.add(said_of_node(seq, node))
            seq += 1
        after = page.next
    return newest.found
