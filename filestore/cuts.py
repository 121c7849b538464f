"""How files that are saved again and again were cut the last time, in memory. A save that changed
little finds most of its pieces there, hashed and packed.
"""

from collections import OrderedDict

from filestore.chunking import Prepared

CUT_COST_BYTES = 512


class CutCache:
    """The last cut of files that are written again and again, up to a bound in bytes."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._cuts: OrderedDict[tuple[str, str], Prepared] = OrderedDict()

    def get(self, key: tuple[str, str] | None) -> Prepared | None:
        return self._cuts.get(key) if key is not None else None

    def put(self, key: tuple[str, str] | None, prepared: Prepared) -> None:
        if key is None:
            return
        old = self._cuts.pop(key, None)
        self._bytes += _cost(prepared) - (_cost(old) if old else 0)
        self._cuts[key] = prepared
        while self._bytes > self._bytes_max:
            self._bytes -= _cost(self._cuts.popitem(last=False)[1])


def _cost(prepared: Prepared) -> int:
    """About what it takes of memory: the bytes, plain and packed, and all that is around them."""
    return 2 * prepared.size + CUT_COST_BYTES * (1 + len(prepared.pieces))
