"""How figures are taken and judged. No figure stands alone: ours and a baseline, in turn.

Rounds alternate which of the two goes first; the ratio is taken per round and the median of those
is the figure, so that a slow disk or a busy neighbour, which hits both sides of a round, mostly
cancels out.
"""

import gc
import shutil
import time
import tracemalloc
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from tempfile import mkdtemp
from typing import Literal

Scale = Literal["tiny", "small", "full"]
Measure = Callable[[], Awaitable[float]]


@dataclass(frozen=True, slots=True)
class Target:
    """The figure must be at least (`≥`) or at most (`≤`) the bound."""

    sense: Literal["≥", "≤"]
    bound: float

    def is_met(self, figure: float) -> bool:
        return figure >= self.bound if self.sense == "≥" else figure <= self.bound


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. `figures` holds one figure per round; their median is judged."""

    name: str
    ours: str
    baseline: str
    figures: list[float]
    unit: str
    target: Target | None = None
    note: str = ""

    @property
    def figure(self) -> float:
        return median(self.figures)

    @property
    def verdict(self) -> str:
        if self.target is None:
            return ""
        return "pass" if self.target.is_met(self.figure) else "MISS"


@dataclass(slots=True)
class Context:
    """Where a run keeps its data, how large it is, and stores that several benchmarks share."""

    folder: Path
    scale: Scale
    made: dict[str, Path] = field(default_factory=dict)

    @property
    def rounds(self) -> int:
        return self.pick(2, 5, 9)

    def pick(self, tiny: int, small: int, full: int) -> int:
        """The number that goes with the scale."""
        return {"tiny": tiny, "small": small, "full": full}[self.scale]

    def fresh(self, name: str) -> Path:
        """A new empty folder."""
        return Path(mkdtemp(prefix=f"{name}-", dir=self.folder))

    async def shared(self, name: str, make: Callable[[Path], Awaitable[None]]) -> Path:
        """The folder of a store that is made once per run."""
        if name not in self.made:
            folder = self.fresh(name)
            await make(folder)
            self.made[name] = folder
        return self.made[name]

    def drop(self, folder: Path) -> None:
        """Give the space back."""
        shutil.rmtree(folder)


async def in_turn(ours: Measure, baseline: Measure, rounds: int) -> list[tuple[float, float]]:
    """Measure both, once unrecorded to warm up, then `rounds` times in alternating order."""
    pairs: list[tuple[float, float]] = []
    for number in range(-1, rounds):
        gc.collect()
        if number % 2:
            second = await baseline()
            first = await ours()
        else:
            first = await ours()
            second = await baseline()
        if number >= 0:
            pairs.append((first, second))
    return pairs


async def median_us(action: Callable[[int], Awaitable[object]], count: int) -> float:
    """The median time of `count` calls, one after another. `action` is told which one it is."""
    found: list[float] = []
    for number in range(count):
        started = time.perf_counter()
        await action(number)
        found.append(time.perf_counter() - started)
    return median(found) * 1e6


def compare(
    name: str, pairs: list[tuple[float, float]], unit: str, target: Target | None, note: str = ""
) -> Row:
    """A row of ratios, ours to baseline."""
    ours, baseline = (quantity(median(side), unit) for side in zip(*pairs, strict=True))
    return Row(name, ours, baseline, [a / b for a, b in pairs], "×", target, note)


def quantity(value: float, unit: str) -> str:
    """A number of at least three digits with its unit, for people."""
    return f"{value:,.0f} {unit}" if value >= 1000 else f"{value:.3g} {unit}"


class PeakMemory:
    """How far the memory of this process rises above where it was, within a `with` block.

    The larger of resident pages and what Python holds: room that earlier work left in the heap
    hides growth from the first, and what C libraries hold is hidden from the second.
    """

    grown_bytes = 0

    def __enter__(self) -> "PeakMemory":
        gc.collect()
        # Sets the kernel's high-water mark back. Where that is forbidden the figure is too large.
        with suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")
        self._resident_kib = _proc("status", "VmRSS")
        tracemalloc.start()
        return self

    def __exit__(self, *_: object) -> None:
        traced = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        resident_kib = _proc("status", "VmHWM") - self._resident_kib
        self.grown_bytes = max(resident_kib << 10, traced)


def written_chars() -> int:
    """Bytes this process has handed to write calls so far, on all its threads."""
    return _proc("io", "wchar")


def written_to_disk() -> int:
    """Bytes this process has caused to be sent to a disk so far."""
    return _proc("io", "write_bytes")


def _proc(file: str, name: str) -> int:
    for line in Path(f"/proc/self/{file}").read_text().splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return int(value.split()[0])
    raise LookupError(name)
