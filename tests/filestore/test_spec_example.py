"""The worked example of docs/specs/0001-store-format.md, byte for byte."""

import re

from tests.conftest import FakeClock, StoreOpener
from tests.support.processes import ROOT

SPEC = (ROOT / "docs" / "specs" / "0001-store-format.md").read_text(encoding="utf-8")


def shown_row() -> re.Pattern[bytes]:
    """The log row that the spec shows; checks are left open there."""
    (block,) = re.findall(r"^```\n(.*?)^```$", SPEC, re.MULTILINE | re.DOTALL)
    shown = "".join(line.split()[0] for line in block.splitlines())
    pattern = re.sub(r"(?:xx)+", lambda found: f"[0-9a-f]{{{len(found[0])}}}", shown)
    return re.compile(pattern.encode())


async def test_first_append_of_a_store_is_stored_as_the_spec_shows(open_store: StoreOpener) -> None:
    store = await open_store(clock=FakeClock(1000))
    appended = await store.append("z", "f", b"hi\n")
    assert appended == (0, 3, 4)
    rows = await store.read_unit(lambda tx: tx.fetch("SELECT seq, data FROM log WHERE seq > 1"))
    ((seq, data),) = rows
    assert seq == 4
    assert shown_row().fullmatch(data.hex().encode())
    zone = await store.read_unit(lambda tx: tx.fetch_one("SELECT * FROM zone"))
    assert zone is not None
    assert zone[:-1] == (2, "z", 2, 1000, b"{}")
    file = await store.read_unit(lambda tx: tx.fetch_one("SELECT * FROM file"))
    assert file is not None
    assert file[:-1] == (3, 2, "f", 3, 0, 0, 0, 1000, 1000, 0, None, b"{}")
