"""Media inside the arguments and results of tools: found wherever they hide, and nothing else."""

import base64
import json
import random
from typing import Any

import pytest

from filestore.errors import InvalidFieldError
from filestore.transcript import check_row
from filestore.transcript.media import inline_media
from tests.transcript.rows import REF, call, result, row

_CHANCE = random.Random(9)
PICTURE = base64.b64encode(b"\x89PNG\r\n\x1a\n" + _CHANCE.randbytes(60)).decode()
BYTES = base64.b64encode(_CHANCE.randbytes(600)).decode()
HANDLE = {"type": "media", "mimeType": "image/png", "source": {"kind": "handle", "ref": REF}}

MEDIA: dict[str, Any] = {
    "our part with bytes": {"type": "media", "mimeType": "image/png",
                            "source": {"kind": "base64", "data": "AAAA"}},
    "our part with an address": {"type": "media", "source": {"kind": "url", "url": "https://a.b/c"}},
    "our part with a data URL as handle": {"type": "media", "mimeType": "image/png",
                                           "source": {"kind": "handle", "ref": "data:,x"}},
    "our part with bytes beside its handle": {**HANDLE, "data": "AAAA"},
    "our part with bytes for a name": {**HANDLE, "name": "data:image/png;base64,AAAA"},
    "a source of base64": {"type": "image", "source": {"type": "base64", "data": "AAAA"}},
    "a source of base64 of no type": {"source": {"kind": "base64", "data": "AAAA"}},
    "a picture by its address": {"type": "image", "source": {"type": "url", "url": "https://a.b/c"}},
    "an image_url": {"type": "image_url", "image_url": {"url": "https://a.b/c.png"}},
    "an input_image": {"type": "input_image", "image_url": "https://a.b/c.png"},
    "bytes with their type": {"type": "image", "data": "AAAA", "mimeType": "image/png"},
    "a blob with its type": {"uri": "file:///a", "blob": PICTURE, "mimeType": "application/x-a"},
    "an address with its type": {"mimeType": "video/mp4", "url": "https://a.b/c.mp4"},
    "a data URL": "data:image/png;base64,AAAA",
    "a data URL with spaces and capitals": "  DATA:Image/PNG;BASE64,AAAA",
    "a data URL without base64": "data:image/svg+xml,%3Csvg%3E",
    "a data URL without a type": "data:;base64,AAAA",
    "a data URL in a text": f"see ![it](data:image/png;base64,{PICTURE}) there",
    "a data URL as a key": {"data:image/png;base64,AAAA": 1},
    "a picture in base64": PICTURE,
    "bytes in base64": BYTES,
    "bytes in base64 on lines": "\n".join(BYTES[at : at + 76] for at in range(0, len(BYTES), 76)),
    "bytes in base64 for addresses": BYTES.replace("+", "-").replace("/", "_"),
}  # fmt: skip
HARMLESS: dict[str, Any] = {
    "a handle": HANDLE,
    "a handle in its part with a name": {**HANDLE, "name": "a.png"},
    "an address": {"url": "https://example.com/a/picture.png"},
    "an address as a text": "https://example.com/a/picture.png",
    "a picture's address as an argument": {"image_url": "https://example.com/a.png"},
    "a source that is a path": {"source": {"type": "file", "path": "src/a.py"}},
    "a source of a package": {"source": {"type": "url", "url": "https://example.com/a.tgz"}},
    "a text resource": {"uri": "file:///a.txt", "mimeType": "text/plain", "text": "hello"},
    "a link to a resource": {"uri": "file:///a.txt", "mimeType": "text/plain", "name": "a"},
    "JSON in a field of data": {"mimeType": "application/json", "data": '{"a": 1}'},
    "code that makes data URLs": 'return "data:image/png;base64," + encode(pixels)',
    "an example of a data URL": "write data:image/png;base64,AAAA in the page",
    "prose": "data: two, three, four",
    "a list of data": "data:one,two",
    "a short word": "AAAA",
    "a hash": "0af9" * 16,
    "a long hash": "0123456789abcdef" * 40,
    "a long path": "/srv/Projects/Web2024/src/" + "Components/Inner/" * 30 + "Index",
    "many dashes": "-" * 1000,
    "digits": "0123456789" * 100,
    "source": "def f(x):\n    return x\n" * 50,
    "an id": "3f2504e0-4f89-11d3-9a0c-0305e82c3301",
    "nothing": [None, True, 1, 1.5, "", [], {}],
}


@pytest.mark.parametrize("name", MEDIA)
@pytest.mark.parametrize("make", [call, result], ids=["args", "result"])
def test_medium_is_found_wherever_it_hides(name: str, make: Any) -> None:
    part = make("t", MEDIA[name]) if make is call else make(MEDIA[name])
    field = "args" if make is call else "result"
    with pytest.raises(InvalidFieldError) as caught:
        check_row(row(0, "tool", part))
    assert caught.value.field == f"content[0].{field}"

    hidden = [{"deep": ["x", {"a b": MEDIA[name]}]}]
    part = make("t", hidden) if make is call else make(hidden)
    with pytest.raises(InvalidFieldError) as caught:
        check_row(row(0, "assistant", "text", part))
    assert caught.value.field == f'content[1].{field}[0].deep[1]["a b"]'
    assert "store it and name its handle" in caught.value.message


@pytest.mark.parametrize("name", HARMLESS)
def test_what_is_no_medium_is_kept(name: str) -> None:
    value = HARMLESS[name]
    assert inline_media(value) is None
    assert inline_media({"a": [value]}) is None
    said = row(0, "tool", call("t", value), result(value))
    assert check_row(said) == said


def test_text_may_speak_of_media() -> None:
    said = row(0, "user", f"data:image/png;base64,{PICTURE}", json.dumps(MEDIA))
    assert check_row(said) == said
