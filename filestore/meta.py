"""The meta of zones and files: JSON objects with sorted keys, as stored bytes. Pure."""

from collections.abc import Mapping

import orjson

from filestore.errors import InvalidArgumentError, TooLargeError
from filestore.model import Json, Limits


def encode_meta(meta: Mapping[str, Json], limits: Limits) -> bytes:
    """Meta as stored bytes."""
    try:
        blob = orjson.dumps(meta, option=orjson.OPT_SORT_KEYS)
        if orjson.loads(blob) != meta:
            raise TypeError("it does not come back as it was")  # NaN would become null
    except TypeError as error:
        raise InvalidArgumentError(f"meta must be JSON: {error}", operation="set_meta") from error
    if len(blob) > limits.meta_bytes_max:
        raise TooLargeError(
            f"{len(blob)} bytes of meta are more than {limits.meta_bytes_max}",
            limit=limits.meta_bytes_max,
            operation="set_meta",
        )
    return blob


def decode_meta(blob: bytes) -> Mapping[str, Json]:
    """The meta of a row whose check has passed."""
    meta: dict[str, Json] = orjson.loads(blob) if blob != b"{}" else {}
    return meta
