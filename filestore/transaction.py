"""Writing zones and files inside one transaction.

`Transaction` is what a unit handed to `FileStore.transact` works with. Everything it does is one
transaction, in the database and in the change feed. Versions, positions and row ids all come from
the one store-wide counter.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from filestore.appending import append_to
from filestore.arguments import check_append, check_write, join_lines
from filestore.building import Built, take_built
from filestore.chunking import Prepared, hash_bytes, prepare
from filestore.engine.base import Tx
from filestore.engine.schema import row_check
from filestore.errors import (
    AlreadyExistsError,
    CorruptionError,
    NotFoundError,
    VersionConflictError,
)
from filestore.heads import FileRow, Head, ZoneRow, damage_error
from filestore.lines import Open
from filestore.lists import (
    count_references,
    mark_released,
    read_packed_page,
    read_packed_pages,
    read_page,
    replace_list,
    write_page,
)
from filestore.meta import decode_meta, encode_meta
from filestore.model import (
    Appended,
    Change,
    ChangeKind,
    FileInfo,
    Json,
    Limits,
    LinesAppended,
    ZoneInfo,
    check_file_name,
    check_zone_name,
)
from filestore.reading import OVER, ReadTransaction
from filestore.sealing import Sealed, cut_stream, place, plan_seal

EMPTY_META = b"{}"


class Transaction(ReadTransaction):
    """All operations, over the state before this unit plus what it did so far."""

    def __init__(self, tx: Tx, limits: Limits) -> None:
        super().__init__(tx)
        self._tx = tx
        self._limits = limits

    @property
    def rows(self) -> Tx:
        return self._tx

    def end(self) -> None:
        super().end()
        self._tx = OVER

    # -- files

    async def write(
        self, zone: str, name: str, data: bytes | Prepared, *, if_version: int | None = None
    ) -> FileInfo:
        """Replace the whole file, making zone and file if missing. Equal bytes change nothing."""
        check_zone_name(zone, "write")
        check_file_name(name, "write")
        prepared = data if isinstance(data, Prepared) else prepare(check_write(data, self._limits))
        head = await self.head(zone, name)
        current = head.version if head else 0
        if if_version is not None and if_version != current:
            raise VersionConflictError(
                f"version is {current}, not {if_version}",
                current_version=current,
                operation="write",
                zone=zone,
                name=name,
            )
        if head is not None and await self._is_equal(zone, head, prepared):
            return self.info(zone, head, unchanged=True)
        now = self._tx.now_ms()
        row = head.row if head else await self._make_file(zone, name, now)
        entries = [
            (piece.digest, len(piece.data), ended)
            for piece, ended in zip(prepared.pieces, prepared.lines_ended, strict=True)
        ]
        try:
            old = await read_packed_pages(self._tx, row.id, row.pages)
        except CorruptionError:
            # To be replaced is what a damaged file needs. Its list is left as it is, to be told of.
            row, old = await self._begin_again(row), []
        pages = await replace_list(self._tx, row.id, old, entries, prepared.pieces)
        version = self._tx.next_version()
        row = row._replace(
            version=version,
            size=prepared.size,
            ended=sum(prepared.lines_ended),
            open=int(prepared.open),
            modified_ms=now,
            pages=pages,
            digest=prepared.digest,
        )
        saved = await self._save(zone, row)
        await self._tx.tail_drop(row.id, version)
        self._publish("write", zone, name, version, 0, prepared.size)
        return self.info(zone, saved)

    async def add_file(
        self,
        zone: str,
        name: str,
        content: Prepared | Built,
        *,
        created_ms: int,
        modified_ms: int,
        meta: Mapping[str, Json] | None = None,
    ) -> FileInfo:
        """Make a file that has a past: its times and meta are given. The zone is made if missing.

        `content` may be what `FileStore.build` has built. AlreadyExistsError if there is a file.
        """
        check_zone_name(zone, "add_file")
        check_file_name(name, "add_file")
        if await self.head(zone, name) is not None:
            raise AlreadyExistsError("the file exists", operation="add_file", zone=zone, name=name)
        blob = encode_meta(meta or {}, self._limits)
        found = await self.zone_row(zone) or await self._make_zone(zone, created_ms, EMPTY_META)
        if isinstance(content, Built):
            await take_built(self._tx, content)
            file_id, pages, ended = content.file_id, content.pages, content.ended
        else:
            file_id = self._tx.next_version()
            entries = [
                (piece.digest, len(piece.data), lines)
                for piece, lines in zip(content.pieces, content.lines_ended, strict=True)
            ]
            pages = await replace_list(self._tx, file_id, [], entries, content.pieces)
            ended = sum(content.lines_ended)
        row = FileRow(
            file_id,
            found.id,
            name,
            self._tx.next_version(),
            content.size,
            ended,
            int(content.open),
            created_ms,
            modified_ms,
            pages,
            content.digest,
            blob,
        )
        head = await self._insert(zone, row)
        self._publish("write", zone, name, row.version, 0, row.size)
        return self.info(zone, head)

    async def append(self, zone: str, name: str, data: bytes) -> Appended:
        """Add bytes at the end, making zone and file if missing."""
        check_zone_name(zone, "append")
        check_file_name(name, "append")
        data = check_append(data, self._limits)
        if not data:
            return await self._append_nothing(zone, name)
        head = await self._head_to_append(zone, name)
        counter = await self.line_counter(zone, name, head.size, head.open)
        version = append_to(self._tx, (zone, name), head, data, counter.feed(data), counter.state)
        return Appended(head.size, head.size + len(data), version)

    async def append_lines(
        self, zone: str, name: str, lines: Iterable[str | bytes]
    ) -> LinesAppended:
        """Add lines, each ended by exactly one line break; blank ones are dropped."""
        check_zone_name(zone, "append_lines")
        check_file_name(name, "append_lines")
        return await self.append_kept_lines(zone, name, *join_lines(lines, self._limits))

    async def append_kept_lines(
        self, zone: str, name: str, data: bytes, count: int
    ) -> LinesAppended:
        """Add `count` lines that `join_lines` has made ready."""
        if not count:
            present = await self.head(zone, name)
            if present is None:
                return LinesAppended(0, 0, 0, 0, 0)
            return LinesAppended(present.size, present.lines, 0, 0, present.version)
        head = await self._head_to_append(zone, name)
        if head.open is Open.NOTHING:
            version = append_to(self._tx, (zone, name), head, data, count, Open.NOTHING)
            return LinesAppended(head.size, head.ended, count, len(data), version)
        # A torn last line is closed first, so that it never fuses with a new record.
        ended = count + head.open.counts
        version = append_to(self._tx, (zone, name), head, b"\n" + data, ended, Open.NOTHING)
        return LinesAppended(head.size + 1, head.lines, count, len(data), version)

    async def set_meta(
        self, zone: str, name: str | None, changes: Mapping[str, Json]
    ) -> Mapping[str, Json]:
        """Merge `changes` into the meta of a file, or of the zone if `name` is None. None deletes a
        key.

        The version of a file is that of its content, so it stays.
        """
        check_zone_name(zone, "set_meta")
        row = await self._meta_row(zone, name)
        meta = dict(decode_meta(row.meta))
        for key, value in changes.items():
            if value is None:
                meta.pop(key, None)
            else:
                meta[key] = value
        blob = encode_meta(meta, self._limits)
        if blob == row.meta:
            return meta
        position = self._tx.next_version()
        if isinstance(row, ZoneRow):
            await self._save_zone(row._replace(meta=blob, version=position))
        else:
            await self._save(zone, row._replace(meta=blob))
        version = position if isinstance(row, ZoneRow) else (await self.head_of(zone, row)).version
        self._tx.publish(Change(position, "meta", zone, name, version))
        return decode_meta(blob)

    async def delete_file(self, zone: str, name: str) -> bool:
        """Delete a file. False if there was none. Its space comes back in the background."""
        head = await self.head(
            check_zone_name(zone, "delete_file"), check_file_name(name, "delete_file")
        )
        if head is None:
            return False
        await self._release(head.row)
        self._tx.heads.pop((zone, name), None)
        self._publish("delete", zone, name, self._tx.next_version())
        return True

    # -- zones

    async def move_zone(self, old: str, new: str) -> None:
        """Rename a zone, whatever its size by changing one row."""
        zone = await self._source_and_target(old, new, "move_zone")
        version = self._tx.next_version()
        await self._save_zone(zone._replace(name=new, version=version))
        self._tx.heads.clear()
        self._publish("move_zone", new, None, version, source=old)

    async def copy_zone(self, src: str, dst: str) -> None:
        """Copy a zone: lists are copied, chunks are shared."""
        source = await self._source_and_target(src, dst, "copy_zone")
        target = await self._make_zone(dst, self._tx.now_ms(), source.meta)
        for row in await self.file_rows(source.id, src):
            sealed = await self._seal_now(src, row)
            await self._copy_file(sealed, target)
        self._publish("copy_zone", dst, None, target.version, source=src)

    async def delete_zone(self, zone: str) -> bool:
        """Delete a zone and its files. False if there was none."""
        found = await self.zone_row(check_zone_name(zone, "delete_zone"))
        if found is None:
            return False
        for row in await self.file_rows(found.id, zone):
            await self._release(row)
        await self._tx.execute("DELETE FROM zone WHERE id = ?", (found.id,))
        self._tx.heads.clear()
        self._publish("delete_zone", zone, None, self._tx.next_version())
        return True

    async def add_zone(self, zone: str, *, created_ms: int, meta: Mapping[str, Json]) -> ZoneInfo:
        """Make a zone that has a past. AlreadyExistsError if there is one of that name."""
        if await self.zone_row(check_zone_name(zone, "add_zone")) is not None:
            raise AlreadyExistsError("the zone exists", operation="add_zone", zone=zone)
        blob = encode_meta(meta, self._limits)
        return (await self._make_zone(zone, created_ms, blob)).info()

    # -- sealing

    async def seal(self, zone: str, row: FileRow, sealed: Sealed) -> FileRow:
        """Put the prepared chunks of a tail into the list of an otherwise unchanged file."""
        page = await read_page(self._tx, row.id, row.pages - 1) if row.pages else None
        pages = await place(self._tx, row.id, page, sealed)
        row = row._replace(
            version=sealed.version,
            size=sealed.size,
            ended=sealed.ended,
            open=int(sealed.open),
            modified_ms=sealed.modified_ms,
            pages=pages,
            digest=None,
        )
        await self._save(zone, row)
        await self._tx.tail_drop(row.id, sealed.version)
        return row

    async def _seal_now(self, zone: str, row: FileRow) -> FileRow:
        plan = await plan_seal(self, zone, row, self._limits.seal_bytes)
        if plan is None:
            return row
        return await self.seal(zone, row, cut_stream(plan, self._limits.seal_bytes))

    # -- parts

    async def _append_nothing(self, zone: str, name: str) -> Appended:
        head = await self.head(zone, name)
        if head is None:
            head = await self._head_to_append(zone, name)
            self._publish("append", zone, name, head.version, 0, 0)
        return Appended(head.size, head.size, head.version)

    async def _head_to_append(self, zone: str, name: str) -> Head:
        head = await self.head(zone, name)
        if head is None:
            return await self.head_of(zone, await self._make_file(zone, name, self._tx.now_ms()))
        if head.damage is not None:
            raise damage_error(zone, head, head.damage)
        return head

    async def _is_equal(self, zone: str, head: Head, prepared: Prepared) -> bool:
        if head.size != prepared.size or head.damage is not None:
            return False
        if head.version == head.row.version and head.row.digest is not None:
            is_equal = head.row.digest == prepared.digest
            if not (is_equal and self._tx.has_met_damage):
                return is_equal
        try:
            return hash_bytes(await self.read(zone, head.row.name)) == prepared.digest
        except CorruptionError:
            return False  # to be replaced is what a damaged file needs

    async def _make_file(self, zone: str, name: str, now: int) -> FileRow:
        found = await self.zone_row(zone) or await self._make_zone(zone, now, EMPTY_META)
        number = self._tx.next_version()
        row = FileRow(number, found.id, name, number, 0, 0, 0, now, now, 0, None, EMPTY_META)
        await self._insert(zone, row)
        return row

    async def _make_zone(self, zone: str, now: int, meta: bytes) -> ZoneRow:
        number = self._tx.next_version()
        row = ZoneRow(number, zone, number, now, meta)
        await self._tx.execute(
            "INSERT INTO zone (id, name, version, created_ms, meta, row_check) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            (*row, row_check(*row)),
        )
        return row

    async def _insert(self, zone: str, row: FileRow) -> Head:
        await self._insert_row(row)
        return await self._know(zone, row)

    async def _insert_row(self, row: FileRow) -> None:
        await self._tx.execute(
            "INSERT INTO file (id, zone_id, name, version, size, ended, open, created_ms, "
            "modified_ms, pages, digest, meta, row_check) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*row, row_check(*row)),
        )

    async def _save(self, zone: str, row: FileRow) -> Head:
        await self._tx.execute(
            "UPDATE file SET version = ?, size = ?, ended = ?, open = ?, modified_ms = ?, "
            "pages = ?, digest = ?, meta = ?, row_check = ? WHERE id = ?",
            (
                row.version,
                row.size,
                row.ended,
                row.open,
                row.modified_ms,
                row.pages,
                row.digest,
                row.meta,
                row_check(*row),
                row.id,
            ),
        )
        return await self._know(zone, row)

    async def _know(self, zone: str, row: FileRow) -> Head:
        head = self._tx.heads[zone, row.name] = await self.head_of(zone, row)
        return head

    async def _save_zone(self, row: ZoneRow) -> None:
        await self._tx.execute(
            "UPDATE zone SET name = ?, version = ?, meta = ?, row_check = ? WHERE id = ?",
            (row.name, row.version, row.meta, row_check(*row), row.id),
        )

    async def _meta_row(self, zone: str, name: str | None) -> ZoneRow | FileRow:
        if name is None:
            found = await self.zone_row(zone)
            if found is None:
                raise NotFoundError("no such zone", operation="set_meta", zone=zone)
            return found
        head = await self.head(zone, check_file_name(name, "set_meta"))
        if head is None:
            raise NotFoundError("no such file", operation="set_meta", zone=zone, name=name)
        return head.row

    async def _source_and_target(self, source: str, target: str, operation: str) -> ZoneRow:
        """The source's row, once it is sure that it exists and the target does not."""
        check_zone_name(source, operation)
        check_zone_name(target, operation)
        found = await self.zone_row(source)
        if found is None:
            raise NotFoundError("no such zone", operation=operation, zone=source)
        if await self.zone_row(target) is not None:
            raise AlreadyExistsError("the target zone exists", operation=operation, zone=target)
        return found

    async def _copy_file(self, row: FileRow, target: ZoneRow) -> None:
        file_id = self._tx.next_version()
        copied = row._replace(id=file_id, zone_id=target.id, version=file_id)
        counts: Counter[bytes] = Counter()
        for number in range(row.pages):
            page = await read_packed_page(self._tx, row.id, number)
            counts.update(page.digests())
            await write_page(self._tx, copied.id, page)
        await count_references(self._tx, counts)
        await self._insert(target.name, copied)

    async def _begin_again(self, row: FileRow) -> FileRow:
        """The same file without content, under another id."""
        await self._release(row)
        row = row._replace(id=self._tx.next_version(), pages=0)
        await self._insert_row(row)
        return row

    async def _release(self, row: FileRow) -> None:
        """Delete a file's row; its list is taken apart in the background."""
        await self._tx.execute("DELETE FROM file WHERE id = ?", (row.id,))
        if row.pages:
            await mark_released(self._tx, row.id, row.pages)
        await self._tx.tail_drop(row.id, self._tx.next_version())

    def _publish(
        self,
        kind: ChangeKind,
        zone: str,
        name: str | None,
        version: int,
        offset: int | None = None,
        size: int | None = None,
        source: str | None = None,
    ) -> None:
        self._tx.publish(Change(version, kind, zone, name, version, offset, size, source))
