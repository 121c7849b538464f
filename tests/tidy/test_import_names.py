"""The rooms' import names are generic, so nobody else may own them in our environment."""

import importlib.util
from collections.abc import Mapping, Sequence
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests.tidy.project import ROOMS, ROOT


def foreign_owners(name: str, owners: Mapping[str, Sequence[str]]) -> set[str]:
    """Distributions other than ours that install a package of this name."""
    # An editable install lists no packages, so no owner at all is as good as ours.
    return set(owners.get(name, ())) - {"zoned"}


def is_below(origin: str | None, root: Path) -> bool:
    return origin is not None and Path(origin).resolve().is_relative_to(root)


@pytest.mark.parametrize("room", ROOMS)
def test_room_when_imported_resolves_under_project_root(room: str) -> None:
    spec = importlib.util.find_spec(room)
    assert spec is not None
    assert is_below(spec.origin, ROOT), f"{room} comes from {spec.origin}"


@pytest.mark.parametrize("room", ROOMS)
def test_room_name_in_environment_has_no_foreign_owner(room: str) -> None:
    assert foreign_owners(room, packages_distributions()) == set()


def test_package_of_another_distribution_is_reported() -> None:
    owners = {"filestore": ["zoned", "py-filestore"]}
    assert foreign_owners("filestore", owners) == {"py-filestore"}


def test_module_outside_root_is_not_below_it() -> None:
    assert not is_below(pytest.__file__, ROOT / "srv")
    assert not is_below(None, ROOT)
