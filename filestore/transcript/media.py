"""Media where they must not be: inline, or by address, inside the arguments and results of tools.

A medium is stored apart and named by its handle, `media://sha256-<64 hex>`; a transcript never
carries its bytes, and never an address that may show something else tomorrow. Pure.

An address as such is no medium (`{"url": "https://…"}` is what a tool that fetches is called with),
nor is a text that speaks of data URLs. What counts:

    an object with type "media"        unless it is exactly the part that messages may hold
    a `source` of base64               {"kind" or "type": "base64"}
    an object of a type of media       "image", "audio", … with a `source` or `image_url` elsewhere
    bytes or address with their type   {"mimeType": "image/png", "data" or "url": …}
    a text that is a data URL          or holds one with more than a few bytes
    a text that is all base64          of a known kind of file, or long and without an order
"""

import re
from collections import Counter
from math import log2

from filestore.transcript.values import Flaw, first_inside

REF = re.compile(r"media://sha256-[0-9a-f]{64}")
MIME_TYPE = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126}/[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126}"
)
REFUSED = "must not hold a medium inline or by address: store it and name its handle"

EMBEDDED_CHARS_MAX = 64
"""So much base64 behind `base64,` may stand inside a text: an example, not a picture."""
UNORDERED_CHARS_MIN = 256
_ENTROPY_MIN = 4.8
_LOOKED_AT_CHARS = 4096
_PACKED_CHARS_MIN = 16

_DATA_URL = re.compile(r"\s*data:[a-z0-9.+-]*/?[a-z0-9.+-]*(?:;[a-z0-9=_.+-]*)*,", re.IGNORECASE)
_EMBEDDED = re.compile(
    rf"data:[a-z0-9/;=_.+-]{{0,200}};base64,[a-z0-9+/_-]{{{EMBEDDED_CHARS_MAX}}}", re.IGNORECASE
)
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")
_LINE_BREAKS = re.compile(r"\r?\n")
# How files of the usual kinds begin in base64: PNG, JPEG, GIF, PDF, RIFF, ID3, Ogg, ZIP.
_FILE_HEADS = ("iVBORw0KGg", "/9j/4", "R0lGOD", "JVBERi0", "UklGR", "SUQz", "T2dnU", "UEsDB")

_TYPES = ("mimeType", "mime_type", "mediaType", "media_type")
_BYTES = ("data", "base64", "bytes", "blob", "b64_json")
_ADDRESSES = ("url", "uri", "href", "fileUri", "file_uri")
_MEDIA = ("image/", "audio/", "video/", "application/pdf", "application/octet-stream")
_OBJECTS = frozenset(
    ("image", "input_image", "image_url", "audio", "input_audio", "video", "document", "file")
)
_ELSEWHERE = frozenset(("url", "uri", "base64", "data", "inline"))


def inline_media(value: object) -> Flaw | None:
    """Where in a value the first medium is that is no handle; None if there is none.

    The value must be one that `values.flaw_of` has found nothing wrong with.
    """
    if isinstance(value, str):
        return Flaw("", REFUSED) if _is_inline_text(value) else None
    if isinstance(value, dict):
        if _is_handle_part(value):
            return None
        if _is_inline_object(value) or any(_is_inline_text(key) for key in value):
            return Flaw("", REFUSED)
    if isinstance(value, dict | list):
        return first_inside(value, inline_media)
    return None


def is_handle(source: object) -> bool:
    """True for exactly `{"kind": "handle", "ref": "media://sha256-<64 hex>"}`."""
    if not isinstance(source, dict) or source.keys() != {"kind", "ref"}:
        return False
    ref = source["ref"]
    return source["kind"] == "handle" and isinstance(ref, str) and bool(REF.fullmatch(ref))


def _is_handle_part(value: dict[str, object]) -> bool:
    """True for the media part that messages may hold; its name is only a text."""
    if value.get("type") != "media" or not is_handle(value.get("source")):
        return False
    if not value.keys() <= {"type", "mimeType", "source", "name"}:
        return False
    return not any(_is_inline_text(inner) for inner in value.values() if isinstance(inner, str))


def _is_inline_object(value: dict[str, object]) -> bool:
    if value.get("type") == "media" and "source" in value:
        return True
    kinds = _source_kinds(value.get("source"))
    if "base64" in kinds:
        return True
    kind = value.get("type")
    is_medium = isinstance(kind, str) and kind in _OBJECTS
    if is_medium and (kinds & _ELSEWHERE or _is_image_url(value.get("image_url"))):
        return True
    return _has_typed_bytes(value)


def _source_kinds(source: object) -> frozenset[str]:
    """How a source says that it is given."""
    if not isinstance(source, dict):
        return frozenset()
    told = (source.get("kind"), source.get("type"))
    return frozenset(kind.lower() for kind in told if isinstance(kind, str))


def _is_image_url(value: object) -> bool:
    address = value.get("url") if isinstance(value, dict) else value
    return isinstance(address, str) and address != "" and not REF.fullmatch(address)


def _has_typed_bytes(value: dict[str, object]) -> bool:
    """True for bytes or an address next to a type of media, however the fields are called."""
    told = [value[key] for key in _TYPES if isinstance(value.get(key), str)]
    if not told:
        return False
    is_media = any(str(kind).lower().startswith(_MEDIA) for kind in told)
    data = [value[key] for key in _BYTES if isinstance(value.get(key), str)]
    if any(text and (is_media or _is_packed(str(text))) for text in data):
        return True
    addresses = [value[key] for key in _ADDRESSES if isinstance(value.get(key), str)]
    return is_media and any(text and not REF.fullmatch(str(text)) for text in addresses)


def _is_packed(text: str) -> bool:
    """True for base64 next to a type of anything: long enough, and of the length it has."""
    plain = _LINE_BREAKS.sub("", text)
    is_whole = len(plain) >= _PACKED_CHARS_MIN and len(plain) % 4 == 0
    return is_whole and _BASE64.fullmatch(plain) is not None


def _is_inline_text(text: str) -> bool:
    if len(text) < _PACKED_CHARS_MIN and "," not in text:
        return False
    if ":" in text and (_is_data_url(text) or _EMBEDDED.search(text)):
        return True
    if len(text) < _PACKED_CHARS_MIN:
        return False
    plain = text.strip()
    # Cheap first: of most texts the beginning tells.
    if not _BASE64.fullmatch(plain[:_PACKED_CHARS_MIN]):
        return False
    plain = _LINE_BREAKS.sub("", plain)
    if not _BASE64.fullmatch(plain):
        return False
    if plain.startswith(_FILE_HEADS) and len(plain) >= 2 * _PACKED_CHARS_MIN:
        return True
    return len(plain) >= UNORDERED_CHARS_MIN and _is_unordered(plain[:_LOOKED_AT_CHARS])


def _is_data_url(text: str) -> bool:
    found = _DATA_URL.match(text[:300])
    # `data:` alone before a comma is how prose may begin.
    return found is not None and ("/" in found[0] or ";" in found[0])


def _is_unordered(text: str) -> bool:
    """True if the characters are as many and as evenly spread as packed bytes have them.

    Names, paths, numbers and hashes in hex are not.
    """
    counts = Counter(text)
    entropy = -sum(n / len(text) * log2(n / len(text)) for n in counts.values())
    return entropy >= _ENTROPY_MIN
