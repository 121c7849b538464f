"""The configuration: which source wins, what each refuses, and what is told of it."""

import dataclasses
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from srv.config import (
    FILE_BYTES_MAX,
    SETTINGS,
    Config,
    Loaded,
    limits,
    load,
    socket_path,
)
from srv.settings import LIST_ITEMS_MAX, ConfigError, size_text

MIB = 1 << 20
SAMPLES: dict[str, tuple[tuple[str, object], tuple[str, object], tuple[object, object]]] = {
    # By setting: what the file says and gives, what the environment does, and what the flag does.
    "host": (('"127.0.0.2"', "127.0.0.2"), ("::1", "::1"), ("localhost", "localhost")),
    "port": (("1", 1), ("2", 2), (0, 0)),
    "socket": (('"/a.sock"', "/a.sock"), ("none", "none"), (Path("/c.sock"), "/c.sock")),
    "sync": (('"normal"', "normal"), ("full", "full"), ("normal", "normal")),
    "migrate": (("false", False), ("yes", True), (False, False)),
    "allowed_hosts": (('["a"]', ("a",)), ("b, C.d,b", ("b", "c.d")), (["e"], ("e",))),
    "allowed_origins": (
        ('["http://a:1"]', ("http://a:1",)),
        ("https://b,vscode-webview://c", ("https://b", "vscode-webview://c")),
        (("http://[::1]:3",), ("http://[::1]:3",)),
    ),
    "log_level": (('"debug"', "debug"), ("warning", "warning"), ("error", "error")),
}
SAMPLES["workspace_root"] = (('"/a"', "/a"), ("/b", "/b"), (Path("/c"), "/c"))
SAMPLES["backup_dir"] = (('"/a"', "/a"), ("/b", "/b"), (Path("/c"), "/c"))
NUMBERS = [name for name in SETTINGS if SETTINGS[name].kind in ("count", "size", "duration")]
for _number in sorted(set(NUMBERS) - {"port"}):
    SAMPLES[_number] = (("2001", 2001), ("2002", 2002), ("2003", 2003))
SAMPLES["backup_keep"] = (("1", 1), ("2", 2), ("3", 3))

SAMPLES["state_bytes_max"] = (('"2 MiB"', 2 * MIB), ("512KiB", MIB // 2), ("3 b", 3))


def written(folder: Path, content: str | bytes) -> Path:
    file = folder / "zoned.toml"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


def loaded(
    folder: Path, flags: Mapping[str, object] = {}, environ: Mapping[str, str] = {}
) -> Loaded:
    return load({"data_dir": folder, **flags}, environ)


def refusal(folder: Path, flags: Mapping[str, object] = {}, environ: Mapping[str, str] = {}) -> str:
    with pytest.raises(ConfigError) as caught:
        loaded(folder, flags, environ)
    text = str(caught.value)
    assert text.isprintable()
    return text


def long_folder(base: Path, path_bytes: int) -> Path:
    """A folder, not made, whose path has exactly this many bytes."""
    return base / ("x" * (path_bytes - len(os.fsencode(base)) - 1))


def test_defaults_are_those_of_the_spec(tmp_path: Path) -> None:
    result = loaded(tmp_path / "missing")
    assert result.config == Config(tmp_path / "missing")
    assert result.sources == {
        name: "flag --data-dir" if name == "data_dir" else "default" for name in SETTINGS
    }
    assert (result.config.host, result.config.port) == ("127.0.0.1", 7717)
    assert not (tmp_path / "missing").exists()


def test_limits_are_the_fields_that_end_in_max(tmp_path: Path) -> None:
    assert limits(Config(tmp_path)) == {
        "message_bytes_max": 64 * MIB,
        "state_bytes_max": 48 * MIB,
        "line_bytes_max": 8 * MIB,
        "lines_per_append_max": 10_000,
        "connections_max": 1024,
        "requests_in_flight_max": 256,
        "batch_max": 100,
        "subscriptions_max": 256,
        "subscriber_events_max": 1000,
        "queue_bytes_max": 128 * MIB,
        "held_bytes_max": 256 * MIB,
        "turns_max": 50,
        "mcp_sessions_max": 256,
        "http_body_bytes_max": 8 * MIB,
        "sessions_max": 5,
    }


def test_samples_cover_every_setting() -> None:
    assert SAMPLES.keys() | {"data_dir"} == SETTINGS.keys()


@pytest.mark.parametrize("name", SAMPLES)
def test_setting_is_taken_from_the_strongest_source_which_is_named(
    tmp_path: Path, name: str
) -> None:
    (in_file, from_file), (in_environ, from_environ), (flag, from_flag) = SAMPLES[name]
    # Small samples of what must hold a message need a small message.
    flags: dict[str, object] = {} if name == "message_bytes_max" else {"message_bytes_max": 1024}
    file = written(tmp_path, f"{name} = {in_file}\n")
    variable = f"ZONED_{name.upper()}"
    option = "no-migrate" if name == "migrate" else name.replace("_", "-")

    def found(flags: Mapping[str, object], environ: Mapping[str, str]) -> tuple[object, str]:
        result = loaded(tmp_path, flags, environ)
        return getattr(result.config, name), result.sources[name]

    environ = {variable: in_environ, "PATH": "/bin", "zoned_port": "no name of ours"}
    assert found(flags, {}) == (from_file, str(file))
    assert found(flags, environ) == (from_environ, f"environment {variable}")
    assert found({**flags, name: flag}, environ) == (from_flag, f"flag --{option}")


@pytest.mark.parametrize("name", NUMBERS)
def test_number_is_taken_at_its_bounds_and_refused_beyond(tmp_path: Path, name: str) -> None:
    setting = SETTINGS[name]
    assert setting.least >= (0 if "0" in setting.about else 1), "zero has a meaning that is told"
    assert setting.least <= getattr(Config(tmp_path), name) <= setting.most
    holders = {"queue_bytes_max": 1 << 34, "held_bytes_max": 1 << 34, "message_bytes_max": 1024}
    others = {key: value for key, value in holders.items() if key != name}
    for value in (setting.least, setting.most):
        assert getattr(loaded(tmp_path, {**others, name: value}).config, name) == value
    for value in (setting.least - 1, setting.most + 1):
        for text in (
            refusal(tmp_path, {name: value}),
            refusal(tmp_path, {}, {f"ZONED_{name.upper()}": str(value)}),
        ):
            assert name in text
            assert f"must be {setting.rule}; it is " in text


@pytest.mark.parametrize(
    ("name", "value", "ending"),
    [
        ("port", '"7717"', "must be a whole number from 0 to 65535; it is '7717'"),
        ("port", "true", "it is true"),
        ("port", "1.5", "it is 1.5"),
        ("port", "0x" + "f" * 9000, "it is a far larger number"),
        ("port", "1979-05-27", "it is a date"),
        ("port", "[0x" + "f" * 9000 + "]", "it is a list of 1"),
        ("port" + ".a" * 3000, "1", "it is a table"),
        ("state_bytes_max", '"64 MB"', "like \"64 MiB\"; it is '64 MB'"),
        ("state_bytes_max", '"1.5 MiB"', "it is '1.5 MiB'"),
        ("state_bytes_max", '"9 GiB"', "a size from 1 B to 256 MiB, as bytes or like"),
        ("state_bytes_max", "[]", "it is a list of 0"),
        ("sync", '"off"', "must be one of full, normal; it is 'off'"),
        ("sync", "[]", "must be one of full, normal; it is a list of 0"),
        ("log_level", '"INFO"', "must be one of debug, info, warning, error; it is 'INFO'"),
        ("migrate", '"yes"', "must be true or false; it is 'yes'"),
        ("migrate", "1", "must be true or false; it is 1"),
        ("socket", "1", 'must be "none", or a path of at most 107 bytes; it is 1'),
        ("socket", '"a\\u0000b"', "it is 'a\\x00b'"),
        ("socket", f'"/{"s" * 107}"', f"it is '/{'s' * 59}…'"),
        ("host", "1", "only loopback is served; it is 1"),
        ("host", '"0.0.0.0"', "only loopback is served; it is '0.0.0.0'"),
        ("allowed_hosts", '"a,b"', "host names without port, like \"box.example\"; it is 'a,b'"),
        ("allowed_hosts", '["a", "b:1"]', "it is 'b:1'"),
        ("allowed_hosts", '["*"]', "it is '*'"),
        ("allowed_hosts", "[1]", "it is 1"),
        ("allowed_hosts", str(["a"] * (LIST_ITEMS_MAX + 1)), "it is a list of 65"),
        ("allowed_origins", '["*"]', "it is '*'"),
        ("allowed_origins", '["null"]', "it is 'null'"),
        ("allowed_origins", '["http://a/"]', 'like "http://box.example:8080"; it is'),
    ],
)
def test_wrong_value_in_the_file_is_refused_with_name_place_and_rule(
    tmp_path: Path, name: str, value: str, ending: str
) -> None:
    file = written(tmp_path, f"{name} = {value}")
    text = refusal(tmp_path)
    assert text.startswith(f"{name.split('.')[0]} ({file}) must be ")
    assert ending in text
    # It is refused also where a flag overrules it.
    setting = name.split(".")[0]
    assert refusal(tmp_path, {setting: getattr(Config(tmp_path), setting)}) == text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("port", ""),
        ("port", "7_717"),
        ("port", "٣"),
        ("port", "9" * 5000),
        ("port", "64 KiB"),
        ("queue_bytes_max", "MiB"),
        ("queue_bytes_max", "9" * 5000),
        ("migrate", "maybe"),
        ("migrate", ""),
        ("sync", ""),
        ("host", ""),
        ("allowed_hosts", "a,,b"),
        ("allowed_hosts", "http://a"),
        ("allowed_origins", "a.example"),
        ("socket", "s" * 108),
    ],
)
def test_wrong_value_in_the_environment_or_a_flag_is_refused(
    tmp_path: Path, name: str, value: str
) -> None:
    variable = f"ZONED_{name.upper()}"
    text = refusal(tmp_path, {}, {variable: value})
    assert text.startswith(f"{name} (environment {variable}) must be {SETTINGS[name].rule}; it is ")
    text = refusal(tmp_path, {name: value})
    assert text.startswith(f"{name} (flag --{name.replace('_', '-')}) must be ")


@pytest.mark.parametrize("text", ["true", "1", "yes", "TRUE", " Yes "])
def test_boolean_in_the_environment_is_true(tmp_path: Path, text: str) -> None:
    assert loaded(tmp_path, {}, {"ZONED_MIGRATE": text}).config.migrate is True


@pytest.mark.parametrize("text", ["false", "0", "no", "No"])
def test_boolean_in_the_environment_is_false(tmp_path: Path, text: str) -> None:
    assert loaded(tmp_path, {}, {"ZONED_MIGRATE": text}).config.migrate is False


def test_empty_list_in_the_environment_overrules_the_file(tmp_path: Path) -> None:
    written(tmp_path, 'allowed_hosts = ["a"]')
    assert loaded(tmp_path, {}, {"ZONED_ALLOWED_HOSTS": " "}).config.allowed_hosts == ()


@pytest.mark.parametrize("host", ["127.0.0.1", "127.255.0.9", "::1", "0:0:0:0:0:0:0:1"])
def test_loopback_host_is_taken(tmp_path: Path, host: str) -> None:
    assert loaded(tmp_path, {"host": host}).config.host == host


@pytest.mark.parametrize(
    "host",
    [
        "0.0.0.0",
        "::",
        "10.0.0.1",
        "::ffff:127.0.0.1",
        "::1%lo",
        "[::1]",
        "127.1",
        "box",
        "128.0.0.1",
    ],
)
def test_host_that_is_not_loopback_is_refused(tmp_path: Path, host: str) -> None:
    assert refusal(tmp_path, {"host": host}) == (
        "host (flag --host) must be a loopback address (127.0.0.1, ::1 or localhost): "
        f"only loopback is served; it is {host!r}"
    )


@pytest.mark.parametrize("larger", ["queue_bytes_max", "held_bytes_max"])
def test_message_that_could_never_be_held_is_refused(tmp_path: Path, larger: str) -> None:
    file = written(tmp_path, f"{larger} = {MIB}")
    assert refusal(tmp_path) == (
        f"message_bytes_max (default: 64 MiB) must not be over {larger} ({file}: 1 MiB): "
        "lower the first or raise the second"
    )


def test_unknown_keys_in_the_file_are_refused_with_file_and_known_keys(tmp_path: Path) -> None:
    file = written(tmp_path, f'prot = 1\n"a\\nb" = 2\n{"k" * 70} = 3\n[server]\nport = 1\n')
    known = ", ".join(name for name in SETTINGS if name != "data_dir")
    assert refusal(tmp_path) == (
        f"unknown setting in {file}: a\\nb, {'k' * 60}…, prot, server; remove or rename it; "
        f"known are {known}"
    )


def test_unknown_variable_is_refused_by_name_without_its_value(tmp_path: Path) -> None:
    text = refusal(tmp_path, {}, {"ZONED_PROT": "secret", "ZONED_": "x", "ZONED_port": "1"})
    assert text.startswith("unknown setting in the environment: ZONED_, ZONED_PROT, ZONED_port; ")
    assert "known are ZONED_DATA_DIR, ZONED_HOST, ZONED_PORT, " in text
    assert "secret" not in text


def test_data_dir_in_the_file_is_refused(tmp_path: Path) -> None:
    file = written(tmp_path, 'data_dir = "/elsewhere"')
    assert refusal(tmp_path) == (
        f"data_dir cannot be set in {file}, which lies in that folder: "
        "give --data-dir or set ZONED_DATA_DIR"
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"port = 1 # \xff", "is not UTF-8 (byte 11): save it as UTF-8"),
        ("port = 1".encode("utf-16"), "is not UTF-8 (byte 0): save it as UTF-8"),
        (b"port = ", "is not valid TOML: Invalid value (at end of document); mend it"),
        (b"port = 1\nport = 2", "is not valid TOML: Cannot overwrite a value"),
        (b"port = " + b"9" * 5000, "is not valid TOML: "),
        (b"port = " + b"[" * 100_000, "is nested too deeply: settings stand at its top"),
        (b"#" * (FILE_BYTES_MAX + 1), "is over 1 MiB: make it smaller"),
    ],
    ids=["not utf-8", "utf-16", "cut off", "twice", "long number", "deep", "large"],
)
def test_file_that_cannot_be_understood_is_refused(
    tmp_path: Path, content: bytes, said: str
) -> None:
    file = written(tmp_path, content)
    assert refusal(tmp_path).startswith(f"{file} {said}")


@pytest.mark.parametrize("content", [b"", b"# nothing\n", b"#" * FILE_BYTES_MAX])
def test_file_without_settings_changes_nothing(tmp_path: Path, content: bytes) -> None:
    written(tmp_path, content)
    assert loaded(tmp_path).config == Config(tmp_path)


@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_other_thing_in_place_of_the_file_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "zoned.toml"
    if kind == "folder":
        file.mkdir()
    else:
        os.mkfifo(file)
    assert refusal(tmp_path) == f"{file} is not a regular file: remove it, or put a file there"


def test_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "zoned.toml"
    file.symlink_to(file)
    said = "Too many levels of symbolic links"
    assert refusal(tmp_path) == f"cannot read {file}: {said}; make it readable"


def test_error_shows_no_control_character_of_a_path(tmp_path: Path) -> None:
    folder = tmp_path / "a\n\x1b[31m\udcff"
    folder.mkdir()
    written(folder, "x = 1")
    assert "a\\n\\x1b[31m\\udcff/zoned.toml" in refusal(folder)


@pytest.mark.parametrize(
    ("flags", "environ", "platform", "expected", "source"),
    [
        ({"data_dir": "/f"}, {"ZONED_DATA_DIR": "/e"}, "linux", "/f", "flag --data-dir"),
        ({"data_dir": Path("f")}, {}, "linux", "f", "flag --data-dir"),
        ({}, {"ZONED_DATA_DIR": "/e"}, "linux", "/e", "environment ZONED_DATA_DIR"),
        ({}, {"ZONED_DATA_DIR": "e"}, "linux", "e", "environment ZONED_DATA_DIR"),
        ({}, {"ZONED_DATA_DIR": "", "HOME": "/h"}, "linux", "/h/.local/share/zoned", "default"),
        ({}, {"XDG_DATA_HOME": "/x", "HOME": "/h"}, "linux", "/x/zoned", "default"),
        ({}, {"XDG_DATA_HOME": "/x"}, "linux", "/x/zoned", "default"),
        ({}, {"XDG_DATA_HOME": "x", "HOME": "/h"}, "linux", "/h/.local/share/zoned", "default"),
        (
            {},
            {"XDG_DATA_HOME": "/x", "HOME": "/h"},
            "darwin",
            "/h/Library/Application Support/zoned",
            "default",
        ),
    ],
)
def test_data_dir_is_found_and_absolute(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    flags: Mapping[str, object],
    environ: Mapping[str, str],
    platform: str,
    expected: str,
    source: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "platform", platform)
    result = load(flags, environ)
    assert result.config.data_dir == tmp_path / expected
    assert result.sources["data_dir"] == source


@pytest.mark.parametrize(
    ("environ", "platform"),
    [({}, "linux"), ({"HOME": ""}, "linux"), ({"XDG_DATA_HOME": "/x"}, "darwin")],
)
def test_missing_home_is_refused_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch, environ: Mapping[str, str], platform: str
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    with pytest.raises(ConfigError) as caught:
        load({}, environ)
    assert str(caught.value) == (
        "no data folder: HOME is not set; give --data-dir or set ZONED_DATA_DIR"
    )


@pytest.mark.parametrize("value", ["", "a\0b", 1])
def test_data_dir_that_is_no_path_is_refused(value: object) -> None:
    with pytest.raises(ConfigError, match="must be the path of a folder; it is"):
        load({"data_dir": value}, {})


def test_data_dir_that_is_a_file_is_refused(tmp_path: Path) -> None:
    assert "is not a folder" in refusal(written(tmp_path, ""))


def test_relative_path_in_a_removed_folder_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert "give an absolute path" in refusal(tmp_path, {"socket": "a.sock"})
    with pytest.raises(ConfigError, match="is relative to a current folder that is gone"):
        load({"data_dir": "data"}, {})


def test_relative_socket_is_below_the_current_folder_or_for_the_file_below_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    written(tmp_path, 'socket = "a.sock"')
    assert loaded(tmp_path).config.socket == str(tmp_path / "a.sock")
    environ = {"ZONED_SOCKET": "b.sock"}
    assert loaded(tmp_path, {}, environ).config.socket == str(here / "b.sock")


def test_socket_path_is_none_or_the_given_or_in_the_data_folder(tmp_path: Path) -> None:
    assert socket_path(Config(tmp_path, socket="none")) is None
    assert socket_path(Config(tmp_path, socket="/a/b")) == Path("/a/b")
    fitting = long_folder(tmp_path, 107 - len("/zoned.sock"))
    assert socket_path(Config(fitting)) == fitting / "zoned.sock"


def test_given_socket_path_that_is_too_long_is_refused(tmp_path: Path) -> None:
    longest = "/" + "é" * 53
    assert socket_path(Config(tmp_path, socket=longest)) == Path(longest)
    with pytest.raises(ConfigError, match="at most 107 bytes"):
        socket_path(Config(tmp_path, socket=longest + "s"))


def test_socket_of_a_long_data_folder_lies_in_a_runtime_folder(tmp_path: Path) -> None:
    config = Config(long_folder(tmp_path, 108 - len("/zoned.sock")))
    in_tmp = socket_path(config, {})
    assert in_tmp is not None
    assert in_tmp.parent == Path(f"/tmp/zoned-{os.getuid()}")
    assert len(in_tmp.stem) == 16
    assert int(in_tmp.stem, 16) >= 0
    assert socket_path(config, {"XDG_RUNTIME_DIR": "/r"}) == Path("/r/zoned", in_tmp.name)
    for unusable in ("", "relative", "/" + "r" * 90):
        assert socket_path(config, {"XDG_RUNTIME_DIR": unusable}) == in_tmp
    other = Config(config.data_dir.with_name("y" * 200))
    assert socket_path(other, {}) != in_tmp


def test_socket_is_the_same_however_the_data_folder_is_spelled(tmp_path: Path) -> None:
    real = long_folder(tmp_path, 120)
    real.mkdir()
    (tmp_path / "link").symlink_to(real)
    expected = socket_path(Config(real), {})
    assert socket_path(Config(tmp_path / "link"), {}) == expected
    assert socket_path(Config(real / ".." / real.name), {}) == expected


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (1, "1 B"), (1024, "1 KiB"), (1025, "1025 B"), (64 * MIB, "64 MiB")],
)
def test_size_text_reads_back_as_the_size(tmp_path: Path, size: int, text: str) -> None:
    assert size_text(size) == text
    if size:
        assert loaded(tmp_path, {"state_bytes_max": text}).config.state_bytes_max == size


def test_every_setting_says_what_it_is_and_what_it_must_be() -> None:
    assert list(SETTINGS) == [each.name for each in dataclasses.fields(Config)]
    for setting in SETTINGS.values():
        assert 0 < len(setting.about) <= 70
        assert setting.about.isprintable()
        assert setting.rule.isprintable()


def test_config_import_brings_nothing_heavy() -> None:
    heavy = "{'asyncio', 'tomllib', 'hashlib', 'filestore', 'aiohttp'}"
    code = f"import sys, srv.config; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


# -- variables that are not ours alone


def test_variables_of_orchestrators_are_taken_and_named(tmp_path: Path) -> None:
    environ = {"AGENT_WORKSPACE_ROOT": "/repos", "AGENT_SESSION_IDLE_TIMEOUT": "45"}
    written(tmp_path, 'workspace_root = "/of-the-file"\n')
    result = loaded(tmp_path, {}, environ)
    assert (result.config.workspace_root, result.config.idle_timeout) == ("/repos", 45 * 60)
    assert result.sources["workspace_root"] == "environment AGENT_WORKSPACE_ROOT"
    assert result.sources["idle_timeout"] == "environment AGENT_SESSION_IDLE_TIMEOUT"
    ours = {**environ, "ZONED_WORKSPACE_ROOT": "/ours", "ZONED_IDLE_TIMEOUT": "90s"}
    result = loaded(tmp_path, {}, ours)
    assert (result.config.workspace_root, result.config.idle_timeout) == ("/ours", 90)
    assert result.sources["workspace_root"] == "environment ZONED_WORKSPACE_ROOT"
    assert loaded(tmp_path, {"idle_timeout": "2h"}, ours).config.idle_timeout == 7200


def test_variables_of_orchestrators_that_are_empty_are_not_set(tmp_path: Path) -> None:
    environ = {"AGENT_WORKSPACE_ROOT": "", "AGENT_SESSION_IDLE_TIMEOUT": "", "AGENT_OTHER": "x"}
    result = loaded(tmp_path, {}, environ)
    assert (result.config.workspace_root, result.config.idle_timeout) == ("", 1800)
    assert result.sources["workspace_root"] == "default"


@pytest.mark.parametrize("minutes", ["x", "-1", "1.5", "30m", "9" * 12, "1e3"])
def test_idle_time_that_is_no_number_of_minutes_is_refused(tmp_path: Path, minutes: str) -> None:
    text = refusal(tmp_path, {}, {"AGENT_SESSION_IDLE_TIMEOUT": minutes})
    assert "minutes" in text
    assert "environment AGENT_SESSION_IDLE_TIMEOUT" in text


def test_idle_time_of_none_is_never(tmp_path: Path) -> None:
    assert loaded(tmp_path, {}, {"AGENT_SESSION_IDLE_TIMEOUT": "0"}).config.idle_timeout == 0
