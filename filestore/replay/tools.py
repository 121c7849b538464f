"""Tools: the few kinds a pane knows, by the many names that agents give them. Pure."""

import re
from typing import Literal

from filestore.replay.frames import Frame, frames_at, text_at

Kind = Literal["Read", "Edit", "Bash", "Write", "Grep", "Glob", "Task", "Other"]

SUMMARY_CHARS_MAX = 160

_NAMES: dict[Kind, str] = {
    "Read": "read read_file read_many_files read_text_file notebookread view view_image fetch_file",
    "Edit": "edit multiedit notebookedit edit_file replace apply_patch file_change str_replace",
    "Bash": "bash bashoutput powershell shell shell_command exec_command write_stdin local_shell "
    "local_shell_call container.exec command_execution unified_exec run_shell_command execute",
    "Write": "write write_file create_file",
    "Grep": "grep grep_files search_file_content grep_search search",
    "Glob": "glob ls list_dir list_directory",
    "Task": "task agent spawn_agent collab_tool_call delegate_to_agent",
}
_KINDS: dict[str, Kind] = {name: kind for kind, names in _NAMES.items() for name in names.split()}

_SHELL = re.compile(r"(?:\S*/)?(?:ba|z|da)?sh\Z")
_SHELL_LINE = re.compile(r"(?:\S*/)?(?:ba|z|da)?sh -l?c (['\"])(.*)\1\Z", re.DOTALL)
_PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.MULTILINE)
_TOLD = (
    ("command", "cmd"),
    ("file_path", "path", "absolute_path", "notebook_path", "dir_path", "filePath"),
    ("query", "url", "uri"),
    ("description", "title", "name", "prompt", "message", "text"),
)


def kind_of(name: str) -> Kind:
    """The kind of a tool."""
    return _KINDS.get(name.lower(), "Other")


def summarise(kind: Kind, params: Frame) -> str:
    """One line that tells a person what a call does."""
    if kind in ("Grep", "Glob"):
        found = _search(params)
    elif kind == "Task":
        found = text_at(params, "description", "task_name", "prompt", "message")
    else:
        found = ""
    return one_line(found or _told(params))


def _told(params: Frame) -> str:
    """The part of the parameters that says most."""
    for keys in _TOLD:
        found = _command(params) if keys[0] == "command" else text_at(params, *keys)
        if found:
            return found
    patch = text_at(params, "input", "patch")
    if patch:
        return ", ".join(_PATCHED.findall(patch)) or patch
    found = next((value for value in params.values() if type(value) is str and value), "")
    return found or _listed(params)


def _listed(params: Frame) -> str:
    """Of a list, as one of tasks or questions, the entry that is at hand."""
    for key in params:
        entries = frames_at(params, key)
        if entries:
            at_hand = [entry for entry in entries if entry.get("status") == "in_progress"]
            return text_at((at_hand or entries)[0], "content", "step", "question", "text", "title")
    return ""


def _command(params: Frame) -> str:
    """The command line, without the shell that runs it."""
    command = params.get("command", params.get("cmd"))
    if type(command) is str:
        wrapped = _SHELL_LINE.match(command)
        return wrapped[2] if wrapped else command
    if type(command) is not list:
        return ""
    words = [word for word in command if type(word) is str]
    if len(words) == 3 and words[1] in ("-c", "-lc") and _SHELL.match(words[0]):
        return words[2]
    return " ".join(words)


def _search(params: Frame) -> str:
    pattern = text_at(params, "pattern", "query", "regex")
    place = text_at(params, "path", "dir_path", "glob", "include")
    return f"{pattern} in {place}" if pattern and place else pattern or place


def one_line(text: str) -> str:
    """Text with its white space run together, cut to a length that fits a line."""
    # Cut first, roughly: the text may be a whole file.
    line = " ".join(text[: SUMMARY_CHARS_MAX * 4].split())
    return line if len(line) <= SUMMARY_CHARS_MAX else line[: SUMMARY_CHARS_MAX - 1] + "…"
