"""The operators' method that brings older data in, as every start does by itself."""

from collections.abc import Mapping

from srv.rpc.methods import Caller, Json, Method
from srv.rpc.params import Spec, boolean, text


def methods() -> Mapping[str, Method]:
    """The method by its name."""
    params = {"only": text, "dry_run": boolean, "retry_failed": boolean}
    # No agents: each of its transactions decides by what it finds.
    return {"srv:migrate": Method(Spec(params), _migrate, "write", is_operators=True)}


async def _migrate(
    caller: Caller, only: str | None = None, dry_run: bool = False, retry_failed: bool = False
) -> Json:
    from migrations import migrate  # late: few commands need it

    service = caller.service
    found = await migrate(
        service.store,
        service.config.data_dir,
        only=only,
        dry_run=dry_run,
        retry_failed=retry_failed,
        progress=service.progress,
    )
    return {name: stats.details() for name, stats in found.items()}
