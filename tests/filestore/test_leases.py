"""Leases alone: who holds, until when, and who is told."""

from filestore.leases import Leases


def test_lease_holds_what_was_there_before_and_nothing_since() -> None:
    leases = Leases(100.0)
    with leases.hold() as lease:
        assert lease.left_s > 0
        number = leases.next_number
        assert leases.left_s(number) > 0
        assert leases.left_s(number - 1) == 0, "it began after that"


def test_lease_that_ended_holds_nothing_and_tells_so() -> None:
    leases = Leases(100.0)
    ends: list[int] = []
    leases.on_end = lambda: ends.append(leases.next_number)
    with leases.hold():
        assert ends == []
    assert ends == [1]
    assert leases.left_s(leases.next_number) == 0


def test_lease_that_is_too_old_holds_nothing_though_it_goes_on() -> None:
    leases = Leases(0.0)
    with leases.hold() as lease:
        assert lease.left_s <= 0
        assert leases.left_s(leases.next_number) <= 0


def test_leases_hold_as_long_as_the_longest_of_them() -> None:
    leases = Leases(100.0)
    with leases.hold() as first:
        with leases.hold() as second:
            assert second.left_s >= first.left_s
            held = leases.left_s(leases.next_number)
            assert first.left_s <= held <= 100.0
        assert leases.left_s(leases.next_number) > 0


def test_lease_ended_by_an_error_is_ended() -> None:
    leases = Leases(100.0)
    try:
        with leases.hold():
            raise KeyError
    except KeyError:
        pass
    assert leases.left_s(leases.next_number) == 0
