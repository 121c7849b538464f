"""Answers as JSON: what a call gave, or its error with the status that goes with its kind."""

import json
import logging
from collections.abc import Mapping
from uuid import uuid4

import orjson
from aiohttp import web

from srv.errors import ZonedError, told
from srv.http.rest.schema import AnObject, Anything, Named, Text

STATUSES: Mapping[str, int] = {
    "PARSE_ERROR": 400,
    "INVALID_REQUEST": 400,
    "UNKNOWN_METHOD": 405,
    "INVALID_PARAMS": 400,
    "INVALID_DEFINITION_ID": 400,
    "INVALID_ZONE": 400,
    "SECRET_REFUSED": 400,
    "INTERNAL": 500,
    "NOT_FOUND": 404,
    "VERSION_CONFLICT": 409,
    "TOO_LARGE": 413,
    "STORAGE_FULL": 507,
    "BUSY": 503,
    "CORRUPT": 500,
    "UNAUTHORIZED": 401,
    "READ_ONLY": 503,
    "ALREADY_EXISTS": 409,
    "UNAVAILABLE": 503,
    "COMMIT_UNKNOWN": 503,
    "CONFLICT": 409,
    "LIMIT_REACHED": 429,
    "FORBIDDEN": 403,
    "TURN_LIMIT": 409,
}

ERROR = Named(
    "Error",
    AnObject(
        {
            "error": Text(choices=tuple(STATUSES), about="the kind"),
            "message": Text(about="what is wrong, in words"),
            "details": AnObject(
                {
                    "hint": Text(about="what to do about it"),
                    "field": Text(about="the field or parameter that is wrong"),
                    "limit": Anything("the limit that was met"),
                    "status": Text(about="the status of the session in the way"),
                    "error_id": Text(about="what to look for in the daemon's log"),
                },
                more=True,
                is_exact=True,
            ),
        },
        required=("error", "message"),
        is_exact=True,
    ),
)

log = logging.getLogger("zoned.rest")


def dump(value: object) -> bytes:
    """A value as JSON; whole numbers of any size."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def answer(value: object, status: int) -> web.Response:
    """What a call gave."""
    if status == 204:
        return web.Response(status=status)
    return web.Response(body=dump(value), status=status, content_type="application/json")


def refusal(error: ZonedError, status: int | None = None) -> web.Response:
    """An error."""
    details = {name: value for name, value in error.data.items() if name != "kind"}
    body: dict[str, object] = {"error": error.kind, "message": error.message}
    response = answer(
        body | {"details": details} if details else body,
        STATUSES[error.kind] if status is None else status,
    )
    if isinstance(allow := details.get("allow"), list):
        response.headers["Allow"] = ", ".join(allow)
    retry_ms = details.get("retry_after_ms")
    if isinstance(retry_ms, int):
        response.headers["Retry-After"] = str(max(1, -(-retry_ms // 1000)))
    return response


def known(error: Exception) -> ZonedError:
    """An error as the outside is told; a fault of ours is logged, and only its number told."""
    found = told(error)
    if found is None:
        number = uuid4().hex[:12]
        log.error("a call failed by a fault of ours", exc_info=error, extra={"error_id": number})
        hint = f"look for {number} in the daemon's log"
        found = ZonedError("INTERNAL", "the daemon failed", error_id=number, hint=hint)
    return found
