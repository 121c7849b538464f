"""Readers of YAML that are not ours: five ways to take the same bytes."""

from collections.abc import Callable
from typing import Any

import yaml
from ruamel.yaml import YAML


def _ruamel(kind: str, version: tuple[int, int]) -> Callable[[bytes], Any]:
    def read(data: bytes) -> Any:
        # The pure one: the other reads 1.1 only. Made anew, because it remembers a version.
        reader = YAML(typ=kind, pure=True)
        reader.version = version
        return reader.load(data)

    return read


READERS: dict[str, Callable[[bytes], Any]] = {
    "pyyaml": yaml.safe_load,
    "ruamel_safe_1_2": _ruamel("safe", (1, 2)),
    "ruamel_safe_1_1": _ruamel("safe", (1, 1)),
    "ruamel_round_trip_1_2": _ruamel("rt", (1, 2)),
    "ruamel_round_trip_1_1": _ruamel("rt", (1, 1)),
}
