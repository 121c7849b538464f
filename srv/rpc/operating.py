"""The operators' methods: the token, and what agents take of the disk."""

from collections.abc import Mapping

from filestore.sessions import PrunePage
from filestore.sessions.pruning import Rule, prune
from filestore.sessions.usage import usage
from srv.rpc.methods import Caller, Json, Method
from srv.rpc.params import Spec, agent, agent_before, boolean, count, wrong


def methods() -> Mapping[str, Method]:
    """The methods by name."""
    page = {"since_ms": count, "after": agent_before, "limit": count}
    rule = {"before_ms": count, "keep": count, "bytes_min": count}
    pruned = {"definition_id": agent, **rule, "after_ms": count, "dry_run": boolean}
    return {
        "srv:rotate_token": Method(Spec({}), _rotate_token, "write", is_operators=True),
        "srv:usage": Method(Spec(page), _usage, is_operators=True),
        # No agents: a batch decides in its own transaction, and meets no write that was not made.
        "srv:prune": Method(
            Spec(pruned, ("definition_id",)), _prune, "write", _pruned, is_operators=True
        ),
    }


async def _rotate_token(caller: Caller) -> Json:
    return {"token_file": str(await caller.service.rotate_token())}


async def _usage(caller: Caller, since_ms: int = 0, after: str = "", limit: int = 0) -> Json:
    store = caller.service.store
    found = await usage(store, after=after, limit=limit, since_ms=since_ms)
    return [row._asdict() for row in found]


async def _prune(
    caller: Caller,
    definition_id: str,
    before_ms: int | None = None,
    keep: int | None = None,
    bytes_min: int | None = None,
    after_ms: int = -1,
    dry_run: bool = False,
) -> PrunePage:
    rule = Rule(before_ms, keep, bytes_min)
    if rule == Rule():
        raise wrong("before_ms", "give at least one of before_ms, keep and bytes_min")
    store = caller.service.store
    return await prune(store, definition_id, rule, after_ms=after_ms, is_dry_run=dry_run)


def _pruned(page: PrunePage) -> Json:
    answer: dict[str, object] = {"found": [row._asdict() for row in page.found]}
    if page.next_ms is not None:
        answer["next"] = page.next_ms
    return answer
