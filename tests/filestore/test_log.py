"""The append log: rows round trip, any damage shows, and the books about rows are right."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filestore.engine.base import Damage, TailRecord
from filestore.engine.log import LogRows, Tail, Tails, decode, encode
from filestore.errors import CorruptionError
from filestore.lines import Open

U64 = st.integers(0, (1 << 64) - 1)
U32 = st.integers(0, (1 << 32) - 1)
records = st.tuples(
    U64,
    st.builds(
        TailRecord,
        version=U64,
        offset=U64,
        line=U64,
        ended=U32,
        open=st.sampled_from(Open),
        modified_ms=st.integers(-(1 << 63), (1 << 63) - 1),
        data=st.binary(max_size=40),
    ),
)


def record(version: int, data: bytes = b"x", offset: int = 0) -> TailRecord:
    return TailRecord(version, offset, 0, 0, Open.TEXT, 5, data)


SAMPLE = [
    (7, record(100, b"first append\n")),
    (8, record(101, b"")),
    (7, record(102, b"second append\n", 13)),
    (9, record(103, b"third")),
]


@given(st.integers(0, (1 << 63) - 1), st.lists(records, max_size=5))
def test_row_of_any_records_comes_back_the_same(
    seq: int, rows: list[tuple[int, TailRecord]]
) -> None:
    assert list(decode(seq, encode(seq, rows))) == rows


def assert_honest(seq: int, row: bytes, wanted: list[tuple[int, TailRecord]]) -> None:
    """Everything given is as it was; whatever is missing is told, and of the right file."""
    try:
        found = list(decode(seq, row))
    except CorruptionError:
        return
    whole = [item for item in found if not isinstance(item, Damage)]
    suspects = {item.file_id for item in found if isinstance(item, Damage)}
    left = list(wanted)
    for item in whole:
        assert item in left, f"{item} was never appended"
        left.remove(item)
    assert {file_id for file_id, _ in left} <= suspects


def test_row_with_any_bit_flipped_gives_no_other_record() -> None:
    row = encode(103, SAMPLE)
    for at in range(len(row)):
        for bit in range(8):
            damaged = bytearray(row)
            damaged[at] ^= 1 << bit
            assert_honest(103, bytes(damaged), SAMPLE)


def test_row_cut_short_gives_no_other_record_and_tells_what_is_lost() -> None:
    row = encode(103, SAMPLE)
    for size in range(len(row)):
        assert_honest(103, row[:size], SAMPLE)


def test_row_made_longer_gives_no_other_record() -> None:
    assert_honest(103, encode(103, SAMPLE) + b"more", SAMPLE)


@pytest.mark.parametrize("size", [8, 64, 100, 512])
def test_row_with_a_stretch_of_zeros_tells_whose_records_are_lost(size: int) -> None:
    """A torn write takes more than one bit; a file must not become shorter without a word."""
    for at in range(0, len(encode(103, SAMPLE)), 4):
        row = bytearray(encode(103, SAMPLE))
        row[at : at + size] = bytes(len(row[at : at + size]))
        assert_honest(103, bytes(row), SAMPLE)


@given(st.integers(0, 1 << 32))
def test_row_with_a_stretch_overwritten_gives_no_other_record(seed: int) -> None:
    rng = random.Random(seed)
    row = bytearray(encode(103, SAMPLE))
    at = rng.randrange(len(row))
    size = rng.randrange(1, 100)
    row[at : at + size] = rng.randbytes(len(row[at : at + size]))
    assert_honest(103, bytes(row), SAMPLE)


def test_row_under_another_number_is_noticed_or_the_same() -> None:
    """Its records have their own versions, so they can be told from others in any case."""
    assert_honest(104, encode(103, SAMPLE), SAMPLE)


def test_damage_to_one_record_s_bytes_leaves_the_others() -> None:
    row = encode(103, SAMPLE)
    at = row.index(b"second")
    damaged = row[:at] + b"S" + row[at + 1 :]
    found = list(decode(103, damaged))
    assert [item for item in found if not isinstance(item, Damage)] == [
        SAMPLE[0],
        SAMPLE[1],
        SAMPLE[3],
    ]
    (damage,) = [item for item in found if isinstance(item, Damage)]
    assert (damage.file_id, damage.offset, damage.version) == (7, 13, 102)


def test_tails_load_rows_and_name_their_files() -> None:
    tails = Tails()
    assert tails.load(103, encode(103, SAMPLE)) == {7: 102, 8: 101, 9: 103}
    assert tails.load(104, encode(104, ())) == {}
    assert tails[7].bytes == 27
    assert tails[7].between(0, 200) == [SAMPLE[0][1], SAMPLE[2][1]]


def test_tails_load_of_damaged_row_marks_the_file_and_keeps_the_rest() -> None:
    row = encode(103, SAMPLE)
    at = row.index(b"third")
    tails = Tails()
    assert tails.load(103, row[:at] + b"T" + row[at + 1 :]) is None
    assert tails[9].damage is not None
    assert tails[7].damage is None
    assert tails[7].bytes == 27


def test_tail_gives_the_records_between_two_versions() -> None:
    tail = Tail(0)
    added = [record(version) for version in (10, 20, 30)]
    for each in added:
        tail.append(each)
    assert tail.between(0, 100) == added
    assert tail.between(10, 20) == added[1:2]
    assert tail.between(20, 29) == []
    assert tail.between(9, 10) == added[:1]


def test_tail_that_forgot_records_says_so_to_who_needs_them() -> None:
    tail = Tail(0)
    for version in (10, 20, 30):
        tail.append(record(version))
    tail.drop(20)
    assert tail.between(10, 100) is None
    assert tail.between(20, 100) == [record(30)]
    assert tail.bytes == 1


def test_tail_dropped_twice_never_goes_back() -> None:
    tail = Tail(0)
    tail.append(record(10))
    tail.drop(50)
    tail.drop(5)
    assert tail.between(20, 100) is None
    assert tail.between(50, 100) == []


def test_tail_with_append_undone_is_as_before() -> None:
    tail = Tail(0)
    tail.append(record(10, b"four"))
    tail.append(record(20, b"twelve bytes"))
    tail.undo_append()
    assert tail.bytes == 4
    assert tail.between(0, 100) == [record(10, b"four")]


def test_reader_of_a_tail_keeps_its_view_while_records_are_forgotten() -> None:
    tail = Tail(0)
    tail.append(record(10))
    seen = tail.between(0, 100)
    tail.drop(10)
    tail.append(record(20))
    assert seen == [record(10)]


def test_log_rows_nobody_needs_can_go_but_for_the_last() -> None:
    rows = LogRows()
    for seq in (10, 20, 30, 40):
        rows.add(seq, 100, {1: seq} if seq < 30 else {2: seq})
    assert rows.bytes == 400
    assert rows.droppable(9) == ([], 0)
    rows.release(2, 40)
    assert rows.droppable(9) == ([30], 100), "an older one is still needed, this one is not"
    rows.release(1, 10)
    assert rows.droppable(9) == ([30, 10], 200)
    assert rows.droppable(1) == ([30], 100)
    rows.release(1, 25)
    assert rows.droppable(9) == ([30, 10, 20], 300), "the last row always stays"
    rows.forget([30, 10, 20])
    assert rows.bytes == 100
    assert rows.droppable(9) == ([], 0)
    rows.add(50, 100, {})
    assert rows.droppable(9) == ([40], 100), "it is not the last any more"


def test_log_rows_are_released_by_version_of_the_record_not_of_the_row() -> None:
    """The row's number is that of its whole group; a record in it may be older."""
    rows = LogRows()
    for seq in (10, 20, 30):
        rows.add(seq, 1, {1: seq - 3})
    rows.add(40, 1, {})
    rows.release(1, 6)
    assert rows.droppable(9) == ([], 0)
    rows.release(1, 17)
    assert rows.droppable(9) == ([10, 20], 2)


def test_log_rows_name_the_files_that_hold_them() -> None:
    rows = LogRows()
    for seq, file_id in ((10, 1), (20, 2), (30, 1)):
        rows.add(seq, 100, {file_id: seq})
    assert rows.holders(300) == set()
    assert rows.holders(299) == {1}
    assert rows.holders(150) == {1, 2}
    rows.release(1, 10)
    assert rows.holders(299) == set(), "that record is gone, its row may go too"
    assert rows.droppable(9) == ([10], 100)


def test_log_rows_left_for_good_are_neither_counted_nor_given_up() -> None:
    """Up to a bound over all files; what is above it counts as before."""
    rows = LogRows()
    for seq in (10, 20, 30, 40):
        rows.add(seq, 100, {1: seq, 2: seq})
    rows.leave(1, 250)
    assert rows.bytes == 200
    assert rows.holders(0) == {1, 2}
    rows.release(2, 40)
    assert rows.droppable(9) == ([], 0), "file 1 needs the last two, and nobody asks for the others"
    rows.leave(1, 250)
    rows.leave(3, 250)
    assert rows.bytes == 200
    rows.release(1, 40)
    assert rows.droppable(9) == ([30], 100), "the last row stays"
    rows.add(50, 100, {2: 50})
    rows.leave(2, 300)
    assert rows.bytes == 200
    assert rows.droppable(9) == ([30, 40], 200)


def test_held_tails_keep_what_is_dropped_later() -> None:
    tails = Tails()
    tails.load(103, encode(103, SAMPLE))
    held = tails.held()
    tails[7].drop(200)
    del tails[9]
    assert tails[7].between(0, 200) is None
    assert held[7].between(0, 200) == [SAMPLE[0][1], SAMPLE[2][1]]
    assert 9 in held


@pytest.mark.parametrize("row", [None, b"", b"\0", b"\xff" * 30])
def test_tails_load_of_unreadable_row_raises(row: bytes | None) -> None:
    """Nobody knows whose appends it held, so nothing can be trusted."""
    with pytest.raises(CorruptionError):
        Tails().load(5, row)
