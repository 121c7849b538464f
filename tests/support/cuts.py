"""Power cuts at moments chosen by chance all over a recording: which states to make real."""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.disk_states import HOWS, Cut, Disk, How, play, printed
from tests.support.faults import Call

Heard = Callable[[Call], list[bytes]]


@dataclass(frozen=True, slots=True)
class State:
    """What a cut left, and what had been promised before it."""

    place: str
    files: dict[str, bytes]
    cut: Cut

    @property
    def kind(self) -> str:
        """How it was lost, and under which rule for names."""
        return self.place.partition(", ")[2]

    def __hash__(self) -> int:
        return hash((*self.files.items(), len(self.cut.acknowledged)))


@dataclass(frozen=True, slots=True)
class Recording:
    """The calls of a process, or of several one after the other, on one new folder."""

    folder: Path
    calls: Sequence[Call]
    make_heard: Callable[[], Heard] = lambda: printed
    """A new listener: it may have to put messages together."""

    def play(self, is_honest: Callable[[str], bool]) -> Iterator[tuple[Disk, Cut]]:
        disk = Disk(self.folder, is_honest=is_honest)
        for cut in play(disk, self.calls, self.make_heard()):
            yield disk, cut


def states(
    recording: Recording,
    seed: int,
    count: int,
    is_honest: Callable[[str], bool] = lambda _: True,
) -> Iterator[State]:
    """Up to `count` different states, at moments all over the recording."""
    rng = random.Random(seed)
    answers = [len(cut.acknowledged) for _, cut in recording.play(is_honest)]
    after_answer = [at for at in range(1, len(answers)) if answers[at] > answers[at - 1]]
    # Right behind an answer the promise is freshest; elsewhere the disk is in the middle of things.
    # A recording that ends early may have no answer in it.
    chosen = Counter(
        rng.choice(after_answer) if number % 2 and after_answer else rng.randrange(len(answers))
        for number in range(count * 2)
    )
    # Many cuts leave the same. All are made twice, so that the different ones need not be kept.
    every = enumerate(_all_states(recording, chosen, seed, is_honest))
    different = {hash(state): at for at, state in every}
    kept = set(rng.sample(sorted(different.values()), min(count, len(different))))
    for at, state in enumerate(_all_states(recording, chosen, seed, is_honest)):
        if at in kept:
            yield state


def _all_states(
    recording: Recording, chosen: Counter[int], seed: int, is_honest: Callable[[str], bool]
) -> Iterator[State]:
    """So many states for each moment as were chosen; the same ones for the same seed."""
    for index, (disk, cut) in enumerate(recording.play(is_honest)):
        for number in range(chosen[index]):
            rng = random.Random(f"{seed} {index} {number}")
            how: How = rng.choice(HOWS)
            is_lasting = rng.random() < 0.5
            files = disk.after_cut(how, are_names_lasting=is_lasting, rng=rng)
            names = "lasting" if is_lasting else "synced"
            yield State(f"call {cut.moment}, {how}, {names} names", files, cut)
