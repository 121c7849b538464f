"""The methods of replay: one that looks, and two of the operators' that mend."""

from collections.abc import Awaitable, Mapping
from dataclasses import asdict

from filestore.sessions import Finding, Rebuilt, RecoveryPage, ReplayPage
from srv.config import Config
from srv.rpc.methods import PLACE, Caller, Json, Method, agents_in, place_of
from srv.rpc.params import Field, Spec, boolean, count, text, wrong


def provider(name: str, value: object) -> str:
    """One of the providers, by name."""
    from filestore.replay import PROVIDERS  # late: small commands do without

    given = text(name, value)
    if given not in PROVIDERS:
        known = ", ".join(PROVIDERS)
        raise wrong(name, f"{name} {ascii(given)[:60]} is not known; known are: {known}")
    return given


_STREAM: Mapping[str, Field] = {**PLACE, "provider": provider}


def methods(config: Config) -> dict[str, Method]:
    """The methods by name."""
    read = {**_STREAM, "after": count, "limit": count}
    write = {**_STREAM, "force": boolean}
    recover = {"dry_run": boolean, "after": count, "limit": count}
    return {
        "agent:session:replay": Method(Spec(read, (), tuple(PLACE)), _replay, shape=page_shape),
        "srv:replay_write": Method(
            Spec(write, (), tuple(PLACE)),
            _replay_write,
            "write",
            rebuilt_shape,
            agents_in(*PLACE),
            is_operators=True,
        ),
        # No agents: whatever it rebuilds is guarded by the version that it has looked at.
        "srv:recover": Method(Spec(recover), _recover, "write", _recovered, is_operators=True),
    }


def _replay(
    caller: Caller,
    definition_id: str | None = None,
    archive_zoneid: str | None = None,
    provider: str | None = None,
    after: int = 0,
    limit: int = 0,
) -> Awaitable[ReplayPage]:
    place = place_of(definition_id, archive_zoneid)
    return caller.service.sessions.replays.read(place, provider, after=after, limit=limit)


def _replay_write(
    caller: Caller,
    definition_id: str | None = None,
    archive_zoneid: str | None = None,
    provider: str | None = None,
    force: bool = False,
) -> Awaitable[Rebuilt]:
    service = caller.service
    return service.sessions.replays.write(
        place_of(definition_id, archive_zoneid),
        provider,
        force=force,
        state_bytes_max=service.config.state_bytes_max,
    )


def _recover(
    caller: Caller, dry_run: bool = False, after: int = 0, limit: int = 0
) -> Awaitable[RecoveryPage]:
    service = caller.service
    return service.sessions.replays.recover(
        is_dry_run=dry_run,
        after=after,
        limit=limit,
        state_bytes_max=service.config.state_bytes_max,
    )


def page_shape(page: ReplayPage) -> Json:
    """A page of nodes; `next` only where there is more."""
    answer: dict[str, object] = {
        "nodes": page.nodes,
        "lines": page.lines,
        "skipped": page.skipped,
        "torn": page.torn,
        "provider": page.provider,
    }
    if page.next is not None:
        answer["next"] = page.next
    return answer


def rebuilt_shape(done: Rebuilt) -> Json:
    """What became of a snapshot."""
    return asdict(done)


def _recovered(page: RecoveryPage) -> Json:
    answer: dict[str, object] = {
        "checked": page.checked,
        "total": page.total,
        "found": [_finding(each) for each in page.found],
    }
    if page.next is not None:
        answer["next"] = page.next
    return answer


def _finding(finding: Finding) -> Json:
    """What is not known, or was not done, is left out."""
    row = asdict(finding)
    return {key: value for key, value in row.items() if value not in (None, "")}
