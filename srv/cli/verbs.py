"""The verbs of `zoned`: what each takes, what it is for, and where it lives. Data only.

The parser (options.py), the help (help.py) and the completion scripts (completion.py) are made from
this one table. A verb's module is imported when the verb is called, not before. A verb of two words
belongs to a group: `session create` to `session`.
"""

from collections.abc import Mapping

from srv.cli.session_verbs import HOOK_VERBS, SESSION_VERBS
from srv.cli.verb import SHELLS, Argument, Option, Verb

GROUPS: Mapping[str, str] = {
    "session": "sessions by their records",
    "hook": "what programs that run agents call",
}
"""The first words of verbs of two words, and what the verbs of each are about."""

_SECOND = tuple(name.partition(" ")[2] for name in (*SESSION_VERBS, *HOOK_VERBS))
_AGENT = Argument("defId", "agent", "the definition id of an agent")
_PLACE = Argument("defId|zone", "place", "an agent's current session, or the zone of an archive")
_ZONE = Argument("zone", "zone", "the zone of an archive, as `zoned archives` shows it")
_LIMIT = Option(("-n", "--limit"), "show at most so many (default: all)", "N", is_count=True)
_SESSION = Option(
    ("--session-id",), "only if this is the current session; else nothing changes", "ID"
)

VERBS: Mapping[str, Verb] = {
    "serve": Verb(
        "srv.cli.start:serve",
        "run the daemon until SIGINT or SIGTERM",
        "zoned serve --data-dir ./data --port 0",
        "Opens the data folder, listens on loopback and on a unix socket, and prints one line when "
        "it is ready: for people on a terminal, or, elsewhere and with --json, one JSON object. "
        "Logs go to stderr.",
        options=(
            Option(("--host",), "loopback address to listen on (default: 127.0.0.1)", "HOST"),
            Option(("--port",), "TCP port, 0 for any free one (default: 7717)", "PORT"),
            Option(("--socket",), "path of the unix socket, or none", "PATH"),
            Option(
                ("--sync",),
                "full: what is acknowledged survives power loss; normal: a crash of the process "
                "(default: full)",
                "MODE",
                ("full", "normal"),
            ),
            Option(("--no-migrate",), "neither bring older data in nor convert an older format"),
        ),
    ),
    "mcp": Verb(
        "srv.cli.mcp:mcp",
        "speak MCP with an agent, on stdin and stdout",
        'echo \'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\' | zoned mcp',
        "For the settings of a client of the Model Context Protocol: command zoned, arguments mcp. "
        "Goes by the running daemon, or without one by the data folder, and bears a restart. Ends "
        "with its input.",
    ),
    "status": Verb(
        "srv.cli.status:status",
        "tell whether a daemon runs, and how it does",
        "zoned status",
        "Exits with 0 if a daemon runs and is well, with 3 if none runs or it is in trouble.",
    ),
    "agents": Verb(
        "srv.cli.lists:agents",
        "list the agents that have a session or archives",
        "zoned agents",
        options=(_LIMIT,),
    ),
    "archives": Verb(
        "srv.cli.lists:archives",
        "list an agent's finished sessions, newest first",
        "zoned archives ada",
        arguments=(_AGENT,),
        options=(_LIMIT,),
    ),
    "show": Verb(
        "srv.cli.show:show",
        "print the snapshot of a session",
        "zoned show ada",
        "On a terminal with what is known of it, cut to what can be read; into a pipe or a file "
        "byte for byte.",
        (_PLACE,),
    ),
    "tail": Verb(
        "srv.cli.tail:tail",
        "print the last lines of a session's stream",
        "zoned tail ada -n 3",
        "With --follow it goes on until Ctrl-C, which needs a running daemon. With --json it "
        "prints the RPC answer and, when following, each change as one more line.",
        (_PLACE,),
        (
            Option(("-n", "--lines"), "so many lines (default: 10)", "N", is_count=True),
            Option(("-f", "--follow"), "go on with what is appended"),
        ),
    ),
    "write-state": Verb(
        "srv.cli.write_state:write_state",
        "save the snapshot of an agent's session",
        "echo '{\"nodes\": []}' | zoned write-state ada",
        "Durable when it returns. The bytes are kept as they are.",
        (_AGENT, Argument("file", "file", "where to read it; - is stdin (the default)", True)),
        (
            Option(
                ("--if-version",),
                "only if the snapshot has this version (0: there is none)",
                "N",
                is_count=True,
            ),
            _SESSION,
        ),
    ),
    "append": Verb(
        "srv.cli.append:append",
        "append lines from stdin to an agent's stream",
        'echo \'{"type": "hello"}\' | zoned append ada',
        "Takes lines as they come and has them on disk before it reads on, so whoever writes them "
        "is slowed down rather than buffered. All go into one session, each once, even if the "
        "daemon is restarted meanwhile. Blank lines are dropped.",
        (_AGENT,),
        (_SESSION,),
    ),
    "archive": Verb(
        "srv.cli.changes:archive",
        "finish an agent's session; the next one begins empty",
        "zoned archive ada",
        arguments=(_AGENT,),
        options=(_SESSION,),
    ),
    "restore": Verb(
        "srv.cli.changes:restore",
        "make an archive the current session again",
        "zoned restore agent:ada:archive:1700000000000",
        "A session that is current now is archived first.",
        (_ZONE,),
    ),
    "fork": Verb(
        "srv.cli.changes:fork",
        "copy a session to another agent",
        "zoned fork ada bob",
        "The original stays as it is. Costs no space until one of the two changes.",
        (_PLACE, Argument("to", "agent", "the agent that gets the copy")),
        (Option(("--archive-first",), "archive what that agent has now, instead of refusing"),),
    ),
    "delete": Verb(
        "srv.cli.changes:delete",
        "delete an archive for good",
        "zoned delete agent:ada:archive:1700000000000 --yes",
        "Asks first; without a terminal to ask on, it needs --yes.",
        (_ZONE,),
        (Option(("-y", "--yes"), "do not ask"),),
    ),
    "replay": Verb(
        "srv.cli.replay:replay",
        "show what a stream says, as a transcript",
        "zoned replay ada",
        "Reads the stream of a session, or a file of lines as Claude Code and Codex write them; a "
        "name that can be an agent's is one, a file of that name is ./name. On a terminal in "
        "$PAGER when it is long. --json gives the snapshot instead, with --follow each node as it "
        "changes.",
        (
            Argument(
                "defId|zone|file", "source", "a session, a file, or - for stdin (zoned replay -)"
            ),
        ),
        (
            Option(("--from-line",), "begin with this line, counted from 0", "N", is_count=True),
            Option(("-f", "--follow"), "go on with what is appended, until Ctrl-C"),
            Option(
                ("--write",),
                "store the snapshot rebuilt from the stream, if the present one is missing, "
                "unparsable, damaged or behind; it is kept as an archive",
            ),
            Option(("--force",), "with --write: also if the present one is as it should be"),
            Option(
                ("--provider",),
                "who wrote the stream (default: found out)",
                "NAME",
                ("claude", "codex", "gemini", "acp", "journal", "generic"),
            ),
        ),
    ),
    "recover": Verb(
        "srv.cli.recover:recover",
        "look at all sessions and mend what a crash left",
        "zoned recover --dry-run",
        "Finds snapshots that are missing, unparsable, damaged or behind their streams, and torn "
        "streams. Rebuilds the snapshots; what is replaced is kept as an archive. Exits with 3 if "
        "anything was found, with 0 if all was well.",
        options=(Option(("-n", "--dry-run"), "only tell what would be done"),),
    ),
    "migrate": Verb(
        "srv.cli.migrate:migrate",
        "bring older data in, as every start of the daemon does",
        "zoned migrate --dry-run",
        "Finds old databases in the data folder and brings their conversations under their agents; "
        "the old files stay as they are. A run that has nothing to do changes nothing. Exits with "
        "3 if items failed. up, down and status are about the format of the database itself.",
        (
            Argument(
                "up|down|status",
                "word",
                "tables only: newer, older, or look",
                True,
                choices=("up", "down", "status"),
            ),
        ),
        (
            Option(("-n", "--dry-run"), "only tell what would be done"),
            Option(("--only",), "only this migration", "NAME"),
            Option(("--retry-failed",), "try again what has failed before"),
            Option(("--to",), "with down: the format to go back to", "N", is_count=True),
        ),
    ),
    "check": Verb(
        "srv.cli.check:check",
        "look for damage in the store",
        "zoned check",
        "Goes through everything and tells each problem with its place and what to run. Only "
        "reads, also while a daemon runs. Exits with 3 if it found anything.",
        options=(Option(("--deep",), "also read every byte and compare it with its hash"),),
    ),
    "backup": Verb(
        "srv.cli.backup:backup",
        "copy the whole store into one file, and check the copy",
        'zoned backup --force "$ZONED_DATA_DIR/backups/today.db"',
        "Also while a daemon runs: the copy is the store as it was at one moment. The file appears "
        "when every byte of it was checked; a damaged store is no backup and leaves what was "
        "there. Settings and the token are not in it.",
        (Argument("file", "file", "where to put it; not among the files of the store"),),
        (Option(("--force",), "replace that file if it exists"),),
    ),
    "restore-backup": Verb(
        "srv.cli.backup:restore_backup",
        "put a backup in the place of the store",
        'zoned restore-backup "$ZONED_DATA_DIR/backups/today.db" --yes',
        "Checks every byte of the backup first and refuses one that is damaged, newer or none. "
        "What is there now is kept in the folder `backups`. Asks first; without a terminal to ask "
        "on, it needs --yes. The daemon must not be running.",
        (Argument("file", "file", "the backup"),),
        (Option(("-y", "--yes"), "do not ask"),),
    ),
    "gc": Verb(
        "srv.cli.gc:gc",
        "give the space of what was deleted back to the disk, now",
        "zoned gc",
        "The store does it by itself, but later, and not for a little. Others are served "
        "meanwhile.",
    ),
    "export": Verb(
        "srv.cli.portable:export",
        "write one session into one file, for another store",
        'zoned export ada "$(mktemp -d)/ada.session"',
        "Everything of it, with hashes, as it was at one moment; also while a daemon runs. The "
        "file appears when it is whole and was read back.",
        (_PLACE, Argument("file", "file", "where to put it")),
        (Option(("--force",), "replace that file if it exists"),),
    ),
    "import": Verb(
        "srv.cli.portable:import_",
        "bring in a session from such a file",
        "zoned import ada.session --as bob",
        "A damaged or hostile file is refused, and nothing is imported. The session keeps its id, "
        "times and place; where the place is taken it becomes an archive at the next free time. "
        "One that is here already is left alone.",
        (Argument("file", "file", "what zoned export wrote"),),
        (Option(("--as",), "for this agent, as a copy if the original is here", "DEFID"),),
    ),
    "repair": Verb(
        "srv.cli.repair:repair",
        "save all that can be saved of a damaged store into a new one",
        'zoned repair "$(mktemp -d)/saved"',
        "Reads the damaged store page by page and never changes it. What is left of a damaged file "
        "is kept beside, as <name>.damaged. Tells everything that was lost, and exits with 3 if "
        "anything was. To use the new store, put its zoned.db in the place of the old one with "
        "zoned restore-backup.",
        (Argument("folder", "file", "the new store; must not be there yet"),),
    ),
    "doctor": Verb(
        "srv.cli.doctor:doctor",
        "examine the data folder and the machine, and say what to do",
        "zoned doctor",
        "Engine, settings, permissions, disk, measured syncs, migrations, backups, what crashes "
        "have left. Writes nothing, and works beside a daemon, without a store and on a damaged "
        "one. Exits with 3 if anything is bad; a warning is advice.",
    ),
    "usage": Verb(
        "srv.cli.usage:usage",
        "tell how much each agent takes, the largest first",
        "zoned usage",
        "Sizes are those of snapshots and streams before they are packed; what several sessions "
        "share counts for each. 7 DAYS is what was archived in that time.",
        options=(_LIMIT,),
    ),
    "prune": Verb(
        "srv.cli.prune:prune",
        "delete many archives, by age, size or number",
        "zoned prune --older-than 30d --keep 3 --dry-run",
        "Deletes the archives that meet every condition that is given; current sessions stay. "
        "Asks first; without a terminal to ask on, it needs --yes. Some are deleted at a time; the "
        "space is given back in the background.",
        options=(
            Option(("--older-than",), "archived longer ago: 12h, 30d, 8w", "AGE"),
            Option(("--keep",), "not the newest N of each agent", "N", is_count=True),
            Option(("--larger-than",), "of this size or more: 500KiB, 10MiB, 1GiB", "SIZE"),
            Option(("--agent",), "only those of this agent", "ID"),
            Option(("-n", "--dry-run"), "only tell what would be deleted"),
            Option(("-y", "--yes"), "do not ask"),
        ),
    ),
    "token": Verb(
        "srv.cli.token:token",
        "make a new token for connections over TCP",
        "zoned token rotate",
        "The old one is refused at once, also by a daemon that runs, which lets go of those who "
        "came by it. Pages and programs need the new one, from the file `token` of the data "
        "folder; the unix socket needs none.",
        (Argument("rotate", "word", "the only thing to do with it"),),
    ),
    "service": Verb(
        "srv.cli.service:service",
        "print a systemd unit that runs the daemon",
        "zoned service",
        "For a user of systemd: zoned service > ~/.config/systemd/user/zoned.service; then "
        "systemctl --user enable --now zoned. It is told when the daemon is ready, and starts it "
        "again if it fails. Settings of your own belong into zoned.toml.",
    ),
    "config": Verb(
        "srv.cli.settings:config",
        "print every setting, its value and where it came from",
        "zoned config",
        "Flags win over ZONED_* in the environment, then zoned.toml in the data folder, then the "
        "defaults.",
    ),
    "completion": Verb(
        "srv.cli.completion:completion",
        "print the script that completes these commands in a shell",
        "zoned completion bash",
        'bash: eval "$(zoned completion bash)"; zsh: zoned completion zsh > a file _zoned on your '
        "fpath; fish: zoned completion fish | source",
        (Argument("shell", "word", "bash, zsh or fish", choices=SHELLS),),
    ),
    "bench": Verb(
        "srv.cli.bench:bench",
        "run the benchmarks, where they are installed",
        "zoned bench --list",
        "What follows is handed to them: zoned bench -- --help tells what they take.",
        (Argument("arguments", "word", "for the benchmarks", True, True),),
    ),
    "help": Verb(
        "srv.cli.help:help_verb",
        "explain a command",
        "zoned help append",
        arguments=(
            Argument("command", "verb", "the command; none: list them all", True),
            Argument("second", "word", "its second word, if it has two", True, choices=_SECOND),
        ),
    ),
    **SESSION_VERBS,
    **HOOK_VERBS,
}
