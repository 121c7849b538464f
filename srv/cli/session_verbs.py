"""The verbs of two words on sessions by their records, and the hooks. Data only, like verbs.py."""

from collections.abc import Mapping

from srv.cli.verb import Argument, Option, Verb

_ID = Argument("id", "session", "the id of a session")
_METADATA = Option(("--metadata",), "an object, as JSON", "JSON")
_PHASES = ("initializing", "investigating", "planning", "approval", "executing", "validating")
_OUTCOMES = ("completed", "failed", "abandoned")

SESSION_VERBS: Mapping[str, Verb] = {
    "session create": Verb(
        "srv.cli.session:create",
        "begin a session",
        'zoned session create --agent coder --purpose "Fix the build"',
        "Prints its id: the one given, or a new one of the time and chance. Durable when it "
        "returns. Exits with 1 if there is a session of that id, with 2 if it cannot be an id.",
        options=(
            Option(("--agent",), "the name of the agent that works in it", "NAME"),
            Option(("--purpose",), "what for", "TEXT"),
            _METADATA,
            Option(("--id",), "A-Z a-z 0-9 . _ -, a letter or digit first, at most 128", "ID"),
        ),
    ),
    "session update": Verb(
        "srv.cli.session:update",
        "tell the phase, metadata or an error of a session",
        "zoned session update fix-build --phase planning --metadata '{\"n\": 2}'",
        "All that is given, or nothing, with one exit code: 0, or 1 if the session is unknown or "
        "has ended, or a value cannot be taken. Metadata is merged, key by key. An error is "
        "counted, and shown as the last one.",
        (_ID,),
        (
            Option(("--phase",), "what it does now", "PHASE", hints=_PHASES),
            _METADATA,
            Option(("--error",), "what went wrong", "TEXT"),
        ),
    ),
    "session should-resume": Verb(
        "srv.cli.session:should_resume",
        "tell whether a session should be taken up again",
        "zoned session should-resume fix-build",
        "True, and exit code 0, for a session that is investigating, planning or waiting for "
        "approval, was last active at most 30 minutes ago and had fewer than 3 errors. Else "
        "False, and 1.",
        (_ID,),
    ),
    "session get": Verb(
        "srv.cli.session:get",
        "print what is known of a session, as JSON",
        "zoned session get fix-build",
        arguments=(_ID,),
    ),
    "session list": Verb(
        "srv.cli.session:list_",
        "list sessions, those of latest activity first",
        "zoned session list --active-only --limit 5",
        "Those that panes, REST and others have begun as well.",
        options=(
            Option(("--active-only",), "not those that have ended"),
            Option(("--agent",), "only those of this agent's name", "NAME"),
            Option(("-n", "--limit"), "show at most so many (default: all)", "N", is_count=True),
        ),
    ),
    "session finalize": Verb(
        "srv.cli.session:finalize",
        "end a session",
        'zoned session finalize fix-build completed --summary "It is green"',
        "For good: afterwards nothing changes its phase. Exits with 1 if it is unknown or has "
        "ended.",
        (_ID, Argument("outcome", "word", "completed, failed or abandoned", choices=_OUTCOMES)),
        (Option(("--summary",), "what came of it", "TEXT"),),
    ),
    "session cleanup": Verb(
        "srv.cli.session:cleanup",
        "delete old sessions of the command line",
        "zoned session cleanup --hours 48 --dry-run",
        "Those that session create began, with their records and files. What panes, REST and "
        "others began stays, and so does what may be taken up again.",
        options=(
            Option(
                ("--hours",), "last active longer ago than this (default: 24)", "N", is_count=True
            ),
            Option(("--force",), "also those that may be taken up again"),
            Option(("-n", "--dry-run"), "only tell what would be deleted"),
        ),
    ),
    "session export": Verb(
        "srv.cli.session_export:export",
        "write a session as a workflow into a file",
        'zoned session export fix-build --out "$(mktemp -d)/fix-build.yaml"',
        "The same session gives the same bytes, whenever and wherever it is exported. Exits with "
        "2, and leaves everything as it was, if the session is unknown or the file is there.",
        (_ID,),
        (
            Option(
                ("--out",),
                "where to put it (default: <id>.relavium.yaml here); its folder is made",
                "PATH",
            ),
            Option(("--force",), "replace that file if it exists"),
        ),
    ),
}

HOOK_VERBS: Mapping[str, Verb] = {
    "hook pre-delegate": Verb(
        "srv.cli.hook:pre_delegate",
        "tell whether to go on in a session that is there",
        'echo \'{"agent_name": "coder"}\' | zoned hook pre-delegate',
        "Reads a JSON object from stdin (agent_id, or agent_name and task_id, tell which session) "
        "and answers with one. Exits with 0 whatever becomes of the store, and says why; with 1 "
        "only if stdin is no JSON.",
    ),
    "hook subagent-stop": Verb(
        "srv.cli.hook:subagent_stop",
        "end the session of an agent that has stopped",
        'echo \'{"agent_id": "x", "exit_code": 0}\' | zoned hook subagent-stop',
        "Reads a JSON object from stdin (agent_id, or agent_name and task_id, tell which session; "
        "exit_code how it ended) and answers with one. Exits with 0 whatever becomes of the "
        "store, and says why; with 1 only if stdin is no JSON.",
    ),
}
