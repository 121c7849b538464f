"""`zoned gc`, with a daemon and without: the file gets smaller, and what is kept is as it was."""

import re
from pathlib import Path

from filestore import FileStore
from filestore.shrinking import shrink
from tests.cli.tools import SNAPSHOT, Zoned
from tests.contract.tools import noise


def file_bytes(folder: Path) -> int:
    return (folder / "zoned.db").stat().st_size


def test_space_of_a_deleted_archive_goes_back_to_the_disk(zoned: Zoned) -> None:
    zoned.fill()
    empty = zoned.json("gc")["bytes_after"]
    zoned.ok("write-state", "bob", stdin=noise(2_000_000))
    zone = zoned.json("archive", "bob")["archive_zoneid"]
    zoned.ok("delete", zone, "--yes")
    answer = zoned.ok("gc").text
    assert re.match(r"(2|1\.9) MiB given back: the database has ", answer)
    assert file_bytes(zoned.folder) <= empty + 32768
    assert zoned.ok("gc").text.startswith("nothing to give back: ")
    done = zoned.json("gc")
    size = file_bytes(zoned.folder)
    assert done == {"bytes_before": size, "bytes_after": size, "waiting": 0}
    assert zoned.ok("show", zoned.json("archives", "ada")[0]["archive_zoneid"]).out == SNAPSHOT
    assert zoned.ok("check", "--deep").code == 0


async def test_what_a_streaming_read_needs_waits_for_it(tmp_path: Path) -> None:
    data = noise(3_000_000)
    async with await FileStore.open(tmp_path / "data") as store:
        await store.write("z", "f", data)
        stream = store.open_read("z", "f")
        pieces = [await anext(stream)]
        await store.delete_zone("z")
        assert (await shrink(store)).waiting > 0
        pieces += [piece async for piece in stream]
        assert b"".join(pieces) == data
        done = await shrink(store)
        assert done.waiting == 0
        assert done.bytes_after < 200_000
