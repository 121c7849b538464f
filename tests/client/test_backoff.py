"""The waits between tries."""

import random

from srv.client.backoff import FIRST_S, MOST_S, Backoff


def test_waits_grow_up_to_their_bound() -> None:
    backoff = Backoff(random.Random(1))
    waits = [backoff.next_s() for _ in range(20)]
    assert FIRST_S / 2 <= waits[0] <= FIRST_S
    assert all(MOST_S / 2 <= wait <= MOST_S for wait in waits[10:])
    assert len(set(waits)) == 20


def test_waits_are_short_again_after_a_success() -> None:
    backoff = Backoff(random.Random(1))
    for _ in range(10):
        backoff.next_s()
    backoff.reset()
    assert backoff.next_s() <= FIRST_S


def test_daemon_may_ask_for_more_but_not_for_ever() -> None:
    backoff = Backoff(random.Random(1))
    assert backoff.next_s({"retry_after_ms": 500}) == 0.5
    assert backoff.next_s({"retry_after_ms": 3_600_000}) == MOST_S
    assert backoff.next_s({"retry_after_ms": "soon"}) <= FIRST_S * 4
