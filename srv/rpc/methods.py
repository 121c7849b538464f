"""The methods: their parameters, what they call, what they answer. docs/specs/0003-rpc.md.

Thin on purpose: a method hands its checked parameters to `Sessions` and puts the answer into words
of the protocol. What a method is: method.py.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict

from filestore.sessions import OutputAppended, OutputPage, SessionChange, SessionState
from filestore.sessions.names import parse_archive
from filestore.sessions.sessions import OUTPUT_LINES_MAX
from srv.config import Config
from srv.rpc.method import Caller as Caller
from srv.rpc.method import Json as Json
from srv.rpc.method import Method as Method
from srv.rpc.params import (
    Field,
    Spec,
    agent,
    agent_before,
    archive,
    boolean,
    content,
    count,
    guard,
    line,
    lines,
    session,
    wrong,
)
from srv.rpc.protocol import text_or_bytes


def methods(config: Config) -> Mapping[str, Method]:
    """The methods on sessions by name, with the limits of `config`. table.py has all of them."""
    return {**_on_current(config), **_on_archives(), **_looking(config)}


_AGENT: Mapping[str, Field] = {"definition_id": agent}
_ARCHIVE: Mapping[str, Field] = {"archive_zoneid": archive}
_SESSION: Mapping[str, Field] = {"session_id": guard}
PLACE = {**_AGENT, **_ARCHIVE}


def _on_current(config: Config) -> dict[str, Method]:
    agents = agents_in("definition_id")
    line_max = config.line_bytes_max
    write = {**_AGENT, "content": content(config.state_bytes_max), "if_version": count, **_SESSION}
    append = {
        **_AGENT,
        "line": line(line_max, config.lines_per_append_max),
        "lines": lines(line_max, config.lines_per_append_max),
        "at_line": count,
        **_SESSION,
    }
    return {
        "agent:session:read": Method(Spec(_AGENT, ("definition_id",)), _read, shape=state_shape),
        "agent:session:write_state": Method(
            Spec(write, ("definition_id", "content")), _write_state, "write", agents=agents
        ),
        "agent:session:append_output": Method(
            Spec(append, ("definition_id",), ("line", "lines")),
            _append_output,
            "append",
            _appended,
            agents,
        ),
        "agent:session:archive": Method(
            Spec({**_AGENT, **_SESSION}, ("definition_id",)), _archive, "write", agents=agents
        ),
    }


def _on_archives() -> dict[str, Method]:
    agents, zone = agents_in("archive_zoneid"), Spec(_ARCHIVE, ("archive_zoneid",))
    page = {**_AGENT, "limit": count, "before": count}
    fork = {
        **PLACE,
        "to_definition_id": agent,
        "archive_first": boolean,
        "new_session_id": session,
    }
    return {
        "agent:session:list_archives": Method(Spec(page, ("definition_id",)), _list_archives),
        "agent:session:read_archive": Method(zone, _read_archive, shape=state_shape),
        "agent:session:restore": Method(zone, _restore, "write", agents=agents),
        "agent:session:fork": Method(
            Spec(fork, ("to_definition_id",), tuple(PLACE)),
            _fork,
            "write",
            agents=agents_in("definition_id", "archive_zoneid", "to_definition_id"),
        ),
        "agent:session:delete_archive": Method(zone, _delete_archive, "write", agents=agents),
    }


def _looking(config: Config) -> dict[str, Method]:
    output = {**PLACE, "from_line": count, "tail": count, "limit": count}
    line_max = config.line_bytes_max
    return {
        "agent:session:read_output": Method(
            Spec(output, (), tuple(PLACE)), _read_output, shape=lambda page: _page(page, line_max)
        ),
        "agent:session:subscribe": Method(
            Spec({**_AGENT, "since": count}, ("definition_id",)), _subscribe, "now"
        ),
        "agent:session:unsubscribe": Method(
            Spec({"subscription": count}, ("subscription",)), _unsubscribe, "now"
        ),
        "agent:list": Method(Spec({"limit": count, "after": agent_before}), _list_agents),
        "srv:info": Method(Spec({}), lambda caller: caller.service.info(), "now"),
        "srv:health": Method(Spec({}), lambda caller: caller.service.health(), "now"),
    }


def agents_in(*names: str) -> Callable[[Mapping[str, object]], set[str]]:
    """The agents that these parameters name."""
    return lambda values: {_agent(name, str(values[name])) for name in names if name in values}


def _agent(name: str, place: str) -> str:
    return parse_archive(place)[0] if name == "archive_zoneid" else place


def place_of(definition_id: str | None, archive_zoneid: str | None) -> str:
    """The one that is given. Which of them it is shows in its form."""
    place = definition_id if archive_zoneid is None else archive_zoneid
    assert place is not None
    return place


# -- what they call


def _read(caller: Caller, definition_id: str) -> Awaitable[SessionState]:
    return caller.service.sessions.read_state(definition_id)


async def _write_state(
    caller: Caller,
    definition_id: str,
    content: bytes,
    if_version: int | None = None,
    session_id: str | None = None,
) -> Json:
    done = await caller.service.sessions.write_state(
        definition_id, content, if_version=if_version, session_id=session_id
    )
    return {
        "bytes_written": done.bytes_written,
        "version": done.version,
        "modts": done.modts,
        "session_id": done.session_id,
        "unchanged": done.unchanged,
    }


def _append_output(
    caller: Caller,
    definition_id: str,
    line: list[bytes] | None = None,
    lines: list[bytes] | None = None,
    at_line: int | None = None,
    session_id: str | None = None,
) -> Awaitable[OutputAppended]:
    given = line if line is not None else lines
    assert given is not None
    return caller.service.sessions.append_output(
        definition_id, given, at_line=at_line, session_id=session_id
    )


async def _archive(caller: Caller, definition_id: str, session_id: str | None = None) -> Json:
    done = await caller.service.sessions.archive(definition_id, session_id=session_id)
    if done is None:
        return {"archive_zoneid": "", "archived_at_ms": 0}
    return {"archive_zoneid": done.archive_zoneid, "archived_at_ms": done.archived_at_ms}


async def _list_archives(
    caller: Caller, definition_id: str, limit: int = 0, before: int | None = None
) -> Json:
    rows = await caller.service.sessions.list_archives(definition_id, limit, before=before)
    return [row._asdict() for row in rows]


def _read_archive(caller: Caller, archive_zoneid: str) -> Awaitable[SessionState]:
    return caller.service.sessions.read_archive(archive_zoneid)


async def _restore(caller: Caller, archive_zoneid: str) -> Json:
    done = await caller.service.sessions.restore(archive_zoneid)
    return {"session_id": done.session_id, "version": done.version, "archived": done.archived}


async def _fork(
    caller: Caller,
    to_definition_id: str,
    definition_id: str | None = None,
    archive_zoneid: str | None = None,
    archive_first: bool = False,
    new_session_id: str | None = None,
) -> Json:
    session_id = await caller.service.sessions.fork(
        place_of(definition_id, archive_zoneid),
        to_definition_id,
        archive_first=archive_first,
        new_session_id=new_session_id,
    )
    return {"session_id": session_id}


async def _delete_archive(caller: Caller, archive_zoneid: str) -> Json:
    return {"deleted": await caller.service.sessions.delete_archive(archive_zoneid)}


def _read_output(
    caller: Caller,
    definition_id: str | None = None,
    archive_zoneid: str | None = None,
    from_line: int | None = None,
    tail: int | None = None,
    limit: int = OUTPUT_LINES_MAX,
) -> Awaitable[OutputPage]:
    if from_line is not None and tail is not None:
        raise wrong("tail", "give from_line or tail, not both")
    place = place_of(definition_id, archive_zoneid)
    return caller.service.sessions.read_output(place, from_line=from_line, tail=tail, limit=limit)


def _subscribe(caller: Caller, definition_id: str, since: int | None = None) -> Json:
    subscription, seq = caller.subscribe(definition_id, since)
    return {"subscription": subscription, "seq": seq}


def _unsubscribe(caller: Caller, subscription: int) -> Json:
    caller.unsubscribe(subscription)
    return {}


async def _list_agents(caller: Caller, limit: int = 0, after: str = "") -> Json:
    rows = await caller.service.sessions.list_agents(limit, after=after)
    return [asdict(row) for row in rows]


# -- what they answer


def state_shape(state: SessionState) -> Json:
    """A session as a pane reads it: what is not there is left out."""
    answer: dict[str, object] = {}
    if state.content is not None:
        answer["content"] = text_or_bytes(state.content)
        answer["modts"] = state.modts
    answer["version"] = state.version
    answer["session_id"] = state.session_id
    answer["output_bytes"] = state.output_bytes
    answer["output_lines"] = state.output_lines
    if state.recovered is not None:
        answer["recovered"] = state.recovered
    return answer


def change_shape(change: SessionChange) -> dict[str, object]:
    """A change as a notification tells it: what has no part in its kind is left out."""
    answer: dict[str, object] = {"seq": change.position, "kind": change.kind}
    match change.kind:
        case "state":
            answer["version"] = change.version
        case "output":
            answer["offset"] = change.offset
            answer["bytes"] = change.size
            answer["first_line"] = change.first_line
            answer["lines"] = change.lines
            if change.data is not None:
                answer["data"] = text_or_bytes(change.data)
        case "archived" | "restored" | "deleted":
            answer["archive_zoneid"] = change.zone
    return answer


def _appended(done: OutputAppended) -> Json:
    return {
        "bytes_written": done.bytes_written,
        "offset": done.offset,
        "first_line": done.first_line,
        "lines": done.lines,
        "duplicate": done.duplicate,
    }


def _page(page: OutputPage, line_bytes_max: int) -> Json:
    answer: dict[str, object] = {
        "lines": [text_or_bytes(each[:line_bytes_max]) for each in page.lines],
        "first_line": page.first_line,
        "total_lines": page.total_lines,
        "next_line": page.next_line,
    }
    long = [(number, len(each)) for number, each in enumerate(page.lines, page.first_line)
            if len(each) > line_bytes_max]  # fmt: skip
    if long:
        answer["truncated"] = [{"line": number, "bytes": size} for number, size in long]
    return answer
