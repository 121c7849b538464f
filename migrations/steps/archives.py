"""The archives of one definition, as far as it takes to tell whether a session is among them."""

from collections import defaultdict
from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

from filestore import FileInfo, FileStore
from filestore.reading import ReadTransaction
from filestore.sessions.names import OUTPUT, STATE, archive_zone, parse_session
from migrations.steps.parts import digest_of


class Holding(NamedTuple):
    """What a session holds: the hashes of its state and its stream, None for no bytes."""

    sizes: tuple[int, int]
    state: bytes | None
    output: bytes | None

    @classmethod
    async def of(cls, tx: ReadTransaction, files: Iterable[FileInfo]) -> "Holding":
        by_name = {info.name: info for info in files if info.size}
        state, output = by_name.get(STATE), by_name.get(OUTPUT)
        return cls(
            sizes_of(by_name.values()),
            await digest_of(tx, state) if state else None,
            await digest_of(tx, output) if output else None,
        )


def sizes_of(files: Iterable[FileInfo]) -> tuple[int, int]:
    """How many bytes state and stream have."""
    sizes = {info.name: info.size for info in files}
    return sizes.get(STATE, 0), sizes.get(OUTPUT, 0)


class Archives:
    """The archives of a definition. Only those of equal sizes are ever compared by content."""

    def __init__(self, definition_id: str) -> None:
        self._id = definition_id
        self._times: set[int] = set()
        self._by_sizes: defaultdict[tuple[int, int], list[str]] = defaultdict(list)
        self._holdings: dict[str, Holding] = {}

    def copy(self) -> "Archives":
        """The same, to be changed on trial."""
        found = Archives(self._id)
        found._times = set(self._times)
        for sizes, zones in self._by_sizes.items():
            found._by_sizes[sizes] = list(zones)
        found._holdings = dict(self._holdings)
        return found

    async def load(self, store: FileStore) -> None:
        """Look at what there is."""
        prefix, after = f"agent:{self._id}:archive:", None
        while True:
            page = await store.zones(prefix, after=after, limit=1000)
            for zone in page.zones:
                name = parse_session(zone.name)
                if name is not None and name[1] is not None:
                    files = await store.files(zone.name) or []
                    self._times.add(name[1])
                    self._by_sizes[sizes_of(files)].append(zone.name)
            after = page.after
            if after is None:
                return

    async def find(self, store: FileStore, wanted: Holding) -> str | None:
        """An archive with the same state and stream."""
        for zone in self._by_sizes.get(wanted.sizes, ()):
            if zone not in self._holdings:
                self._holdings[zone] = await store.view(partial(_holding, zone=zone))
            if self._holdings[zone] == wanted:
                return zone
        return None

    def add(self, holding: Holding, wanted_ms: int, now_ms: int) -> str:
        """The zone for one more archive: at a time, or as soon after it as there is none."""
        ms = wanted_ms or now_ms
        while ms in self._times:
            ms += 1
        zone = archive_zone(self._id, ms)
        self._times.add(ms)
        self._by_sizes[holding.sizes].append(zone)
        self._holdings[zone] = holding
        return zone

    def after(self, ms: int) -> set[str]:
        """The archives later than a time."""
        return {archive_zone(self._id, time) for time in self._times if time > ms}


async def goes_on_from(tx: ReadTransaction, zone: str, earlier: Holding) -> bool:
    """True if a session is `earlier` itself, or what became of it: its stream begins with that
    one's."""
    files = await tx.files(zone) or []
    output = next((info for info in files if info.name == OUTPUT), None)
    length = earlier.sizes[1]
    if not length:
        return await Holding.of(tx, files) == earlier
    if output is None or output.size < length:
        return False
    return await digest_of(tx, output, length) == earlier.output


async def _holding(tx: ReadTransaction, zone: str) -> Holding:
    return await Holding.of(tx, await tx.files(zone) or [])
