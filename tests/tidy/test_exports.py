"""What the rooms offer is listed, in order, and really there."""

from types import ModuleType

import pytest

import filestore
import migrations


def order(name: str) -> tuple[bool, bool, str]:
    """Constants, then classes, then functions: the order ruff's RUF022 keeps."""
    return (not name.isupper(), not name[:1].isupper(), name)


def flaws(module: ModuleType) -> list[str]:
    """What is wrong with this module's `__all__`."""
    names: list[str] = list(module.__all__)
    found = [f"{name}: not in the module" for name in names if not hasattr(module, name)]
    if names != sorted(set(names), key=order):
        found.append("__all__ is not sorted or names something twice")
    return found


@pytest.mark.parametrize("module", [filestore, migrations], ids=lambda module: module.__name__)
def test_exports_of_room_are_sorted_and_resolve(module: ModuleType) -> None:
    assert flaws(module) == []


def test_flawed_exports_are_reported() -> None:
    module = ModuleType("sample")
    module.__dict__.update(LIMIT=1, Alpha=2, beta=3)
    module.__dict__["__all__"] = ["LIMIT", "Alpha", "beta"]
    assert flaws(module) == []
    module.__dict__["__all__"] = ["Alpha", "LIMIT", "gamma"]
    assert flaws(module) == [
        "gamma: not in the module",
        "__all__ is not sorted or names something twice",
    ]
