"""Repos: folders inside the workspace only, each once, kept while sessions have them."""

from pathlib import Path

import pytest

from filestore import (
    AlreadyExistsError,
    ConflictError,
    ForbiddenError,
    InvalidArgumentError,
    NotFoundError,
)
from filestore.records import NewSession, Records
from tests.conftest import FakeClock


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace with folders in it and beside it, and links from one to the other."""
    root = tmp_path / "work"
    for name in ("work/a/deep", "work/b", "work-more/x", "outside"):
        (tmp_path / name).mkdir(parents=True)
    (root / "file").write_bytes(b"")
    (root / "in").symlink_to("a/deep")
    (root / "out").symlink_to(tmp_path / "outside")
    (root / "up").symlink_to("..")
    (root / "gone").symlink_to("nowhere")
    (root / "loop").symlink_to("loop")
    return root


@pytest.mark.parametrize(
    "path",
    ["..", "../outside", "../work-more", "../work-more/x", "a/../../outside", "out", "up", "gone",
     "loop", "file", "file/x", "no such", "/", "/etc", "a\x00", "x" * 5000, "\ud800", "up/outside",
     "~", "out/../outside"],
)  # fmt: skip
async def test_folder_outside_is_refused_like_one_that_is_not_there(
    records: Records, root: Path, path: str
) -> None:
    told = set()
    for place in (path, str(root / path)):
        with pytest.raises(ForbiddenError) as caught:
            await records.add_repo(place, None, root)
        told.add(caught.value.message)
    assert len(told) == 1
    assert await records.list_repos() == []


async def test_folder_inside_is_one_repo_by_all_its_names(
    records: Records, root: Path, clock: FakeClock
) -> None:
    repo = await records.add_repo("a/deep", None, root)
    assert (repo.path, repo.name, repo.created_ms) == (str(root / "a/deep"), "deep", clock.now_ms)
    for path in ("in", "a/./deep/", "a//deep", str(root / "in"), "b/../a/deep"):
        with pytest.raises(AlreadyExistsError, match=repo.id):
            await records.add_repo(path, "other", root)
    other = await records.add_repo("b", "é \U0001f600", root)
    assert await records.list_repos() == [repo, other]
    assert await records.repo(other.id) == other
    assert await records.check_repo(other.id, root) == other


async def test_workspace_that_is_itself_a_link_is_followed(
    records: Records, root: Path, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to(root)
    assert (await records.add_repo("a", None, tmp_path / "link")).path == str(root / "a")
    for place in (None, tmp_path / "nowhere", tmp_path / "work" / "file"):
        with pytest.raises(ForbiddenError):
            await records.add_repo("b", None, place)


async def test_repo_that_has_left_the_workspace_is_refused(records: Records, root: Path) -> None:
    repo = await records.add_repo("b", None, root)
    (root / "b").rmdir()
    (root / "b").symlink_to(root.parent / "outside")
    with pytest.raises(ForbiddenError):
        await records.check_repo(repo.id, root)
    assert await records.repo(repo.id) == repo


async def test_name_that_is_no_text_is_refused(records: Records, root: Path) -> None:
    (root / "odd\udcff").mkdir()
    for path, name in (("odd\udcff", None), ("b", "\ud800"), ("b", "x" * 1001)):
        with pytest.raises(InvalidArgumentError):
            await records.add_repo(path, name, root)
    assert await records.list_repos() == []


async def test_repo_is_kept_while_sessions_have_it(records: Records, root: Path) -> None:
    repo = await records.add_repo("b", None, root)
    await records.create(NewSession("cli", "s", repo_id=repo.id))
    await records.finish("s", "failed")
    with pytest.raises(ConflictError) as caught:
        await records.delete_repo(repo.id)
    assert caught.value.status == "error"
    assert await records.cleanup(1 << 62) == ["s"]
    await records.delete_repo(repo.id)
    for call in (records.delete_repo(repo.id), records.repo(repo.id), records.repo("\ud800")):
        with pytest.raises(NotFoundError):
            await call
    again = await records.add_repo("b", None, root)
    assert again.id != repo.id
