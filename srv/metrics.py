"""What the daemon counts, as plain numbers, and how Prometheus is told.

Everything here is touched on the event loop's thread only. Counting is on every request's way, so
it is additions and nothing else; the text is made when somebody asks.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

LATENCY_BOUNDS_S = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005),
    *(0.01, 0.025, 0.05, 0.1, 0.25, 1.0),
)
"""Upper bounds of the buckets; there is one more for what is slower."""


class Histogram:
    """How often a value fell into which bucket."""

    __slots__ = ("_bounds", "counts", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        self.counts[bisect_left(self._bounds, value)] += 1
        self.sum += value

    def lines(self, name: str, labels: str) -> Iterator[str]:
        """In Prometheus' words: counts up to each bound."""
        total = 0
        for bound, count in zip((*self._bounds, "+Inf"), self.counts, strict=True):
            total += count
            yield f'{name}_bucket{{{labels}le="{bound}"}} {total}'
        braces = f"{{{labels.rstrip(',')}}}" if labels else ""
        yield f"{name}_sum{braces} {self.sum}"
        yield f"{name}_count{braces} {total}"


class Sample(NamedTuple):
    """A number to show, with its kind and what it means."""

    name: str
    kind: str
    about: str
    value: float


class Metrics:
    """The counters of one daemon."""

    def __init__(self) -> None:
        self.connections = 0
        self.connections_refused = 0
        self.subscriptions = 0
        self.requests = 0
        self.errors: Counter[str] = Counter()
        self.latency: dict[str, Histogram] = {}

    def answered(self, method: str, seconds: float, kind: str | None) -> None:
        """Count a request that was answered; `kind` if with an error."""
        self.requests += 1
        histogram = self.latency.get(method)
        if histogram is None:
            histogram = self.latency[method] = Histogram(LATENCY_BOUNDS_S)
        histogram.add(seconds)
        if kind is not None:
            self.errors[kind] += 1

    def text(self, more: Iterable[Sample]) -> str:
        """All of it, and `more`, in Prometheus' text format."""
        lines: list[str] = []
        for name, kind, about, value in (*self._samples(), *more):
            lines += _head(name, kind, about)
            lines.append(f"{name} {value}")
        lines += _head("zoned_errors_total", "counter", "Requests answered with an error, by kind.")
        lines += (f'zoned_errors_total{{kind="{kind}"}} {count}'
                  for kind, count in sorted(self.errors.items()))  # fmt: skip
        name = "zoned_request_seconds"
        lines += _head(name, "histogram", "From request to answer, by method.")
        for method, histogram in sorted(self.latency.items()):
            lines += histogram.lines(name, f'method="{method}",')
        return "\n".join(lines) + "\n"

    def _samples(self) -> Iterator[Sample]:
        yield Sample("zoned_connections", "gauge", "Open RPC connections.", self.connections)
        yield Sample(
            "zoned_connections_refused_total",
            "counter",
            "Connections refused: too many, or without the right to.",
            self.connections_refused,
        )
        yield Sample("zoned_subscriptions", "gauge", "Open subscriptions.", self.subscriptions)
        yield Sample("zoned_requests_total", "counter", "Requests answered.", self.requests)


def _head(name: str, kind: str, about: str) -> list[str]:
    return [f"# HELP {name} {about}", f"# TYPE {name} {kind}"]
