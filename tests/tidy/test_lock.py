"""The lock files pin and hash everything, name no index, and cover pyproject.toml."""

import re
import tomllib

import pytest

from tests.tidy.project import ROOT

LOCKS = ("requirements.lock", "requirements-dev.lock", "requirements-fuzz.lock")
HASH = "--hash=sha256:" + "0" * 64

_PIN = re.compile(r"(?P<name>[a-z0-9-]+)==(?P<version>[\w.+!]+)(?: ; [^\\]+?)?(?P<hashes> --.*)?")
_HASHES = re.compile(r"(?: --hash=sha256:[0-9a-f]{64})+")


def requirements(lock: str) -> list[str]:
    """The lock's entries, one line each, without comments."""
    lines = (re.sub(r"(^|\s)#.*", "", line) for line in lock.splitlines())
    joined = re.sub(r"\\\n", " ", "\n".join(lines))
    return [" ".join(line.split()) for line in joined.splitlines() if line.strip()]


def pins(lock: str) -> dict[str, str]:
    """Version by name of the entries that are pinned."""
    matches = map(_PIN.fullmatch, requirements(lock))
    return {match["name"]: match["version"] for match in matches if match}


def loose_entries(lock: str) -> list[str]:
    """Entries that are not exactly one pinned name with its hashes (options included)."""
    found = []
    for entry in requirements(lock):
        match = _PIN.fullmatch(entry)
        if match is None or not _HASHES.fullmatch(match["hashes"] or ""):
            found.append(entry)
    return found


def missing(wanted: list[str], lock: str) -> list[str]:
    """Names of the wanted requirements that the lock does not pin."""
    names = [re.split(r"[^\w.-]", entry, maxsplit=1)[0] for entry in wanted]
    return sorted({re.sub(r"[-_.]+", "-", name).lower() for name in names} - pins(lock).keys())


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", LOCKS)
def test_lock_entries_are_pinned_and_hashed(name: str) -> None:
    assert requirements(read(name))
    assert loose_entries(read(name)) == []


@pytest.mark.parametrize("name", LOCKS)
def test_lock_file_holds_no_address(name: str) -> None:
    assert re.findall(r"\w+://\S+", read(name)) == []


def test_dependencies_of_project_are_locked() -> None:
    project = tomllib.loads(read("pyproject.toml"))
    runtime = project["project"]["dependencies"] + project["build-system"]["requires"]
    groups = project["dependency-groups"]
    assert missing(runtime, read("requirements.lock")) == []
    wanted = runtime + groups["dev"] + groups["build"]
    assert missing(wanted, read("requirements-dev.lock")) == []
    assert missing(groups["fuzz"], read("requirements-fuzz.lock")) == []


def test_pins_shared_by_the_locks_agree() -> None:
    runtime, dev, fuzz = (pins(read(name)) for name in LOCKS)
    assert runtime.items() <= dev.items()
    assert not fuzz.keys() & dev.keys()


@pytest.mark.parametrize(
    "entry",
    [
        "orjson",
        "orjson==1.0",
        f"orjson>=1.0 {HASH}",
        "orjson==1.0 --hash=md5:00",
        f"orjson @ file:///x {HASH}",
        "--index-url https://example.org",
    ],
)
def test_loose_entry_is_reported(entry: str) -> None:
    assert loose_entries(entry) == [entry]


def test_pinned_entry_over_several_lines_is_accepted() -> None:
    lock = f"a-b==1.0 ; sys_platform == 'linux' \\\n    {HASH} \\\n    {HASH}\n    # via c\n"
    assert loose_entries(lock) == []
    assert pins(lock) == {"a-b": "1.0"}


def test_dependency_absent_from_lock_is_reported() -> None:
    wanted = ["A_b>=1", "other; sys_platform == 'linux'"]
    assert missing(wanted, f"a-b==1.0 {HASH}") == ["other"]
