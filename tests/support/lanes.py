"""Lanes: clients that do everything with sessions of their own, and know what they were promised.

A lane has two agents and a transcript, works with one call at a time, and keeps a plain model of
what they must hold. So whatever is done to the daemon, one comparison says what became of the lane:
its sessions are those before the call under way or those after it, byte for byte, and nothing else.

Every call carries its guard, so that it can be repeated when its outcome is not known. The id of a
request is `lane:number`: who reads the daemon's system calls finds there which were answered.
"""

import itertools
import random
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from filestore import FileStore, NotFoundError
from filestore.records.transcripts import Transcripts
from filestore.sessions import Sessions
from tests.support.daemon import Client, Closed, Failed

UNKNOWN_AGAIN_MAX = 400
AGAIN_S = 0.05
NOT_DONE = ("STORAGE_FULL", "READ_ONLY", "BUSY", "UNAVAILABLE")
"""Kinds that say that nothing was changed."""

TALK = {"agentSlug": "lane", "context": {"workingDir": "/", "fsScopeTier": "read"}}
SPOKEN_AT = "2026-01-01T00:00:00.000Z"

Call = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Session:
    """What one session holds; of a transcript, its messages as lines."""

    content: str | None = None
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Agent:
    """Its current session, and its archives by zone; `?…` stands for a zone nobody has told."""

    current: Session | None = None
    archives: dict[str, Session] = field(default_factory=dict)

    def is_same(self, found: "Agent") -> bool:
        known = {zone: own for zone, own in self.archives.items() if not zone.startswith("?")}
        told = {zone: own for zone, own in found.archives.items() if zone in known}
        left = [own for zone, own in self.archives.items() if zone not in known]
        others = [own for zone, own in found.archives.items() if zone not in known]
        return self.current == found.current and told == known and Counter(left) == Counter(others)

    def archived(self, mark: str) -> "Agent":
        if self.current is None:
            return self
        return Agent(None, {**self.archives, f"?{mark}": self.current})


Agents = dict[str, Agent]


def is_same(expected: Agents, found: Agents) -> bool:
    return all(expected[name].is_same(found[name]) for name in expected)


def after(agents: Agents, call: Call) -> Agents:
    """What the agents hold when the call has been done."""
    name, mark = call["agent"], call["mark"]
    agent = agents[name]
    current = agent.current or Session()
    kind = call["kind"]
    if kind in ("append", "say"):
        changed = replace(agent, current=replace(current, lines=(*current.lines, *call["lines"])))
    elif kind == "start":
        changed = replace(agent, current=current)
    elif kind == "write":
        changed = replace(agent, current=replace(current, content=call["content"]))
    elif kind == "archive":
        changed = agent.archived(mark)
    elif kind == "restore":
        left = {zone: own for zone, own in agent.archives.items() if zone != call["zone"]}
        changed = replace(agent, archives=left).archived(mark)
        changed = replace(changed, current=agent.archives[call["zone"]])
    elif kind == "delete":
        rest = {zone: own for zone, own in agent.archives.items() if zone != call["zone"]}
        changed = replace(agent, archives=rest)
    else:
        assert kind == "fork", kind
        source = agent.archives[call["zone"]] if call["zone"] else agent.current
        target = replace(agents[call["to"]].archived(mark), current=source)
        return {**agents, call["to"]: target}
    return {**agents, name: changed}


def told(agents: Agents, call: Call, answer: dict[str, Any]) -> Agents:
    """The same, with the name of the archive that the answer tells."""
    zone = answer.get("archive_zoneid") or answer.get("archived")
    agent = agents[call["agent"]]
    if not zone or f"?{call['mark']}" not in agent.archives:
        return agents
    archives = dict(agent.archives)
    archives[zone] = archives.pop(f"?{call['mark']}")
    return {**agents, call["agent"]: replace(agent, archives=archives)}


def request(call: Call) -> tuple[str, dict[str, Any]]:
    """The method and parameters of a call."""
    kind, agent = call["kind"], {"definition_id": call["agent"]}
    if kind == "start":
        params = {"session_id": call["agent"], "transcript": TALK, "call_id": call["mark"]}
        return "transcript:start", params
    if kind == "say":
        return "transcript:append", {"session_id": call["agent"], "message": message(call)}
    if kind == "append":
        params = {**agent, "lines": list(call["lines"]), "at_line": call["at_line"]}
        return "agent:session:append_output", params
    if kind == "write":
        return "agent:session:write_state", {**agent, "content": call["content"]}
    if kind == "archive":
        return "agent:session:archive", {**agent, "session_id": call["session_id"]}
    if kind == "fork":
        place = {"archive_zoneid": call["zone"]} if call["zone"] else agent
        to = {"to_definition_id": call["to"], "new_session_id": call["session_id"]}
        return "agent:session:fork", {**place, **to, "archive_first": True}
    method = {"restore": "restore", "delete": "delete_archive"}[kind]
    return f"agent:session:{method}", {"archive_zoneid": call["zone"]}


def message(call: Call) -> dict[str, Any]:
    """The one that a call says; with an id, so that it can be repeated."""
    (text,) = call["lines"]
    return {
        "id": call["mark"],
        "role": "assistant",
        "content": [{"type": "text", "text": text}],
        "timestamp": SPOKEN_AT,
    }


class Lane:
    """One lane. `run` is for a thread of its own."""

    def __init__(self, number: int, seed: object) -> None:
        self.talk = f"lane-{number}-talk"
        self.names = (f"lane-{number}", f"lane-{number}-fork", self.talk)
        self.number = number
        self.rng = random.Random(f"{seed} {number}")
        self.agents: Agents = {name: Agent() for name in self.names}
        self.pending: Call | None = None
        self.history: list[Agents] = [self.agents]
        """What the agents held after each call that was begun; kept if `is_recorded`."""
        self.is_recorded = False
        self.done = 0
        self.heard: Counter[str] = Counter()
        """Answers by kind."""
        self.trouble: BaseException | None = None
        self._pause = threading.Event()
        self._calls = 0

    def run(self, client: Client, steps: int | None = None) -> None:
        """So many calls, done or refused, or without end. The end of the daemon ends it; any other
        failure is kept in `trouble`, for who joins the thread.
        """
        try:
            for _ in itertools.count() if steps is None else range(steps):
                self.step(client)
        except (Closed, OSError):
            return  # `pending` says what was under way
        except BaseException as error:
            self.trouble = error
        finally:
            client.sock.close()

    def step(self, client: Client) -> None:
        """Choose a call, make it, and keep what was promised."""
        call = self._guarded(client, self._choose())
        self._calls += 1
        self.pending = call
        answer = self._ask(client, call)
        if answer is None:
            self.pending = None
            return
        self.agents = told(after(self.agents, call), call, answer)
        self.pending = None
        self.done += 1
        if self.is_recorded:
            self.history.append(self.agents)

    def takes_over(self, found: Agents, where: str) -> None:
        """What was found after a crash must be the promised or the next; go on from there."""
        expected = [self.agents]
        if self.pending is not None:
            expected.append(after(self.agents, self.pending))
        if not any(is_same(agents, found) for agents in expected):
            shown = "\n".join(f"  {describe(agents)}" for agents in (*expected, found))
            raise AssertionError(
                f"{where}: lane {self.number} is neither before nor after its call:\n{shown}"
            )
        self.agents, self.pending = found, None

    def _choose(self) -> Call:
        rng, mark = self.rng, f"{self.number}-{self._calls}"
        name = self.names[rng.random() < 0.2]
        if rng.random() < 0.15:
            return self._talk()
        agent = self.agents[name]
        zones = sorted(zone for zone in agent.archives if not zone.startswith("?"))
        call: Call = {"agent": name, "mark": mark}
        roll = rng.random()
        if roll < 0.08 and agent.current is not None:
            return {**call, "kind": "archive"}
        if roll < 0.16 and zones:
            return {**call, "kind": "restore", "zone": rng.choice(zones)}
        if roll < 0.22 and (zones or agent.current is not None):
            other = next(own for own in self.names[:2] if own != name)
            zone = rng.choice(zones) if agent.current is None else ""
            return {**call, "kind": "fork", "zone": zone, "to": other}
        if (roll < 0.26 or len(zones) > 6) and zones:
            return {**call, "kind": "delete", "zone": zones[0]}
        if roll < 0.40:
            size = rng.choice((50, 2_000, 30_000))
            return {**call, "kind": "write", "content": f"{mark} " + noise(rng, size)}
        at = len(agent.current.lines) if agent.current else 0
        lines = tuple(
            f"{mark} {at + index} " + noise(rng, rng.choice((10, 200, 900)))
            for index in range(rng.randrange(1, 6))
        )
        return {**call, "kind": "append", "lines": lines, "at_line": at}

    def _talk(self) -> Call:
        """Begin a transcript, or go on with it."""
        mark = str(uuid.UUID(int=self.rng.getrandbits(128)))
        call: Call = {"agent": self.talk, "mark": mark}
        if self.agents[self.talk].current is None:
            return {**call, "kind": "start"}
        size = self.rng.choice((10, 300, 20_000))
        return {**call, "kind": "say", "lines": (f"{mark} {noise(self.rng, size)}",)}

    def _guarded(self, client: Client, call: Call) -> Call:
        if call["kind"] == "fork":
            return {**call, "session_id": str(uuid.UUID(int=self.rng.getrandbits(128)))}
        if call["kind"] == "archive":
            read = client.call("agent:session:read", definition_id=call["agent"])
            return {**call, "session_id": read["session_id"]}
        return call

    def _ask(self, client: Client, call: Call) -> dict[str, Any] | None:
        """The answer, or None if the call was not done. Repeats what nobody knows."""
        method, params = request(call)
        was_unknown = False
        for _ in range(UNKNOWN_AGAIN_MAX):
            number = f"{self.number}:{len(self.history) if self.is_recorded else self.done}"
            client.send(client.request(method, number, params))
            try:
                answer: dict[str, Any] = client.result(number)
            except Failed as error:
                self.heard[error.kind] += 1
                if error.kind == "COMMIT_UNKNOWN":
                    was_unknown = True
                elif error.kind not in NOT_DONE:
                    raise
                elif not was_unknown:
                    return None
                else:
                    # Nobody knows, and nobody can say just now: it stays under way.
                    if error.kind == "READ_ONLY":
                        raise Closed(None, "read-only with a call under way") from error
                    self._pause.wait(AGAIN_S)
            else:
                self.heard["ok"] += 1
                return answer
        raise AssertionError(f"still not known after {UNKNOWN_AGAIN_MAX} tries: {call['kind']}")


def noise(rng: random.Random, size: int) -> str:
    """Text that does not pack well."""
    return rng.randbytes(size // 2).hex()


def describe(agents: Agents) -> str:
    """One line for a failed comparison."""

    def session(found: Session | None) -> str:
        if found is None:
            return "none"
        content = "-" if found.content is None else f"{found.content[:8]}({len(found.content)})"
        return f"[{content}, {len(found.lines)} lines]"

    return "; ".join(
        f"{name}: {session(agent.current)} + "
        + ", ".join(f"{zone[-14:]} {session(own)}" for zone, own in sorted(agent.archives.items()))
        for name, agent in sorted(agents.items())
    )


async def observe(store: FileStore, sessions: Sessions, names: Iterable[str]) -> Agents:
    """What the agents hold in an open store, and their transcript, the last of the names."""
    *agents, talk = names
    found = {talk: Agent(await _spoken(store, talk))}
    for name in agents:
        archives = {}
        for row in await sessions.list_archives(name, 100):
            own = await _session(sessions, row.archive_zoneid, sessions.read_archive)
            assert own is not None
            archives[row.archive_zoneid] = own
        found[name] = Agent(await _session(sessions, name, sessions.read_state), archives)
    return found


async def _spoken(store: FileStore, name: str) -> Session | None:
    try:
        loaded = await Transcripts(store).load(name)
    except NotFoundError:
        return None
    numbers = [row["sequenceNumber"] for row in loaded.rows]
    assert numbers == list(range(len(numbers))), numbers
    return Session(None, tuple(_text(row["content"]) for row in loaded.rows))


def _text(content: Any) -> str:
    (part,) = content
    return str(part["text"])


async def _session(sessions: Sessions, place: str, read: Callable[..., Any]) -> Session | None:
    state = await read(place)
    if not state.session_id:
        return None
    lines: list[str] = []
    while True:
        page = await sessions.read_output(place, from_line=len(lines))
        lines += [line.decode() for line in page.lines]
        if len(lines) >= page.total_lines:
            break
    content = None if state.content is None else state.content.decode()
    return Session(content, tuple(lines))
