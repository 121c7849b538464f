"""`zoned completion`: scripts for bash, zsh and fish, made from the table of verbs.

A verb of two words is completed word by word: its group stands for a verb whose first argument is
the second word. Verbs and flags are in the script. For ids and zones it asks `zoned __complete`,
which answers with one candidate a line, and with silence whatever goes wrong: a failing completion
must not write into the line that is being typed.
"""

from srv.cli.options import Invocation, UsageError
from srv.cli.screen import Screen
from srv.cli.verb import ASKED, COMMON, SHELLS, VERSION, Argument, Option, Verb
from srv.cli.verbs import GROUPS, VERBS

CANDIDATES_MAX = 1000


def completion(call: Invocation) -> int:
    """`zoned completion bash|zsh|fish`."""
    (shell,) = call.arguments
    if shell not in SHELLS:
        raise UsageError(f"completion is for {', '.join(SHELLS)}, not {shell!r}", "completion")
    text = {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell]()
    if call.is_json:
        call.screen.json({"shell": shell, "script": text})
    else:
        call.screen.line(text)
    return 0


def complete(words: list[str]) -> int:
    """`zoned __complete KIND [--data-dir DIR] WORD`: candidates for the word, or nothing."""
    screen = Screen()
    try:
        for word in _candidates(words, screen):
            screen.line(word)
        screen.flush()
    except Exception:  # whatever it is, nobody wants to read it while typing
        return 1
    return 0


def _candidates(words: list[str], screen: Screen) -> list[str]:
    from itertools import islice

    from srv.cli.backend import connected, load_config
    from srv.cli.folder import DATABASE_NAME
    from srv.cli.lists import agent_rows, archive_rows
    from srv.cli.options import parse
    from srv.cli.session import session_ids

    kind, *rest = words
    call = parse(["agents", *rest[:-1]])
    call.screen, word = screen, rest[-1] if rest else ""
    if not (load_config(call).data_dir / DATABASE_NAME).exists():
        return []  # nothing is made by pressing a key
    with connected(call, is_reading=True) as backend:
        parts = word.split(":")
        if kind == "session":
            found = session_ids(backend)
        elif kind != "agent" and parts[0] == "agent" and len(parts) > 2:
            found = [row["archive_zoneid"] for row in islice(archive_rows(backend, parts[1]), 100)]
        else:
            ids = [row["definition_id"] for row in islice(agent_rows(backend), CANDIDATES_MAX)]
            zones = [f"agent:{each}:archive:" for each in ids]
            places = ids + zones * (len(parts) > 1)
            found = {"agent": ids, "zone": zones, "place": places, "source": places}[kind]
    return [each for each in found if each.startswith(word)]


def _options(verb: Verb) -> tuple[Option, ...]:
    return (*verb.options, *COMMON)


def _valued(verb: Verb) -> list[str]:
    """The flags of a verb that the next word belongs to."""
    return [flag for option in _options(verb) if option.metavar for flag in option.flags]


def _choices(argument: Argument) -> tuple[str, ...]:
    return _words("") if argument.kind == "verb" else argument.choices


def _words(group: str) -> tuple[str, ...]:
    """The words that can come first, or second in a group."""
    return tuple(_told(group))


def _told(group: str) -> dict[str, str]:
    """These words, each with what it is about."""
    if not group:
        single = {name: verb.about for name, verb in VERBS.items() if " " not in name}
        return {**single, **GROUPS}
    return {
        name.partition(" ")[2]: verb.about
        for name, verb in VERBS.items()
        if name.startswith(f"{group} ")
    }


def _bash() -> str:
    cases, values = [], []
    for name, verb in VERBS.items():
        flags = " ".join(flag for option in _options(verb) for flag in option.flags)
        kinds = " ".join(_quoted(_bash_kind(argument)) for argument in verb.arguments)
        valued = " ".join(_valued(verb))
        cases.append(f'  "{name}") flags="{flags}"; valued="{valued}"; kinds=({kinds}) ;;')
        values += [
            f'    "{name} {flag}") kind="={" ".join(option.offered)}" ;;'
            for option in verb.options
            for flag in option.flags
            if option.offered
        ]
    cases += [f'  {group}) group=1; kinds=("={" ".join(_words(group))}") ;;' for group in GROUPS]
    script = _BASH.replace("VERBS", " ".join(_words(""))).replace("VALUES", "\n".join(values))
    return script.replace("CASES", "\n".join(cases))


def _bash_kind(argument: Argument) -> str:
    choices = _choices(argument)
    return f"={' '.join(choices)}" if choices else argument.kind


_BASH = """# zoned: completion for bash. Load it with: eval "$(zoned completion bash)"
_zoned_verb() {
  case "$verb" in
CASES
  *) return 1 ;;
  esac
}
_zoned() {
  local line word words each verb= group= flag= kind found dir=()
  local flags="--data-dir --json --help --version" valued="--data-dir" kinds=("=VERBS")
  # A colon breaks words in bash, but not in a zone: take them from the line itself.
  line="${COMP_LINE:0:COMP_POINT}"
  word="${line##* }"
  read -ra words <<<"${line%"$word"}"
  COMPREPLY=()
  for each in "${words[@]:1}"; do
    if [ -n "$flag" ]; then
      [ "$flag" != --data-dir ] || dir=(--data-dir "${each/#~/$HOME}")
      flag=
    elif [[ " $valued " == *" $each "* ]]; then
      flag="$each"
    elif [[ "$each" != -?* ]]; then
      if [ -n "$verb" ] && [ -z "$group" ]; then
        kinds=("${kinds[@]:1}")
      else
        verb="$verb${verb:+ }$each"; group=; _zoned_verb || return
      fi
    fi
  done
  kind="${kinds[0]}"
  if [ -n "$flag" ]; then
    case "$verb $flag" in
VALUES
    *" --data-dir" | *" --socket" | *" --out") kind=file ;;
    *) return ;;
    esac
  elif [[ "$word" == -* ]]; then
    kind="=$flags"
  fi
  case "$kind" in
  =*) mapfile -t COMPREPLY < <(compgen -W "${kind#=}" -- "$word") ;;
  agent | place | zone | source | session)
    mapfile -t COMPREPLY < <(zoned __complete "$kind" "${dir[@]}" -- "$word" 2>/dev/null)
    if [[ "$word" == *:* && "$COMP_WORDBREAKS" == *:* ]]; then
      found="${word%"${word##*:}"}"
      COMPREPLY=("${COMPREPLY[@]#"$found"}")
    fi
    [[ "${COMPREPLY[0]}" != *: ]] || compopt -o nospace 2>/dev/null
    ;;
  esac
  # What readline completes by itself it also quotes.
  if [ "$kind" = file ] || [[ "$kind" = source && ${#COMPREPLY[@]} = 0 ]]; then
    compopt -o default 2>/dev/null
  fi
}
complete -F _zoned zoned"""


def _zsh() -> str:
    levels = [_zsh_level(group) for group in (*GROUPS, "")]
    return _ZSH.replace("LEVELS", "\n".join(levels))


def _zsh_level(group: str) -> str:
    """The function that completes the first words, or those of a group."""
    told = _told(group)
    verbs = "\n".join(f"    {_quoted(f'{word}:{about}')}" for word, about in told.items())
    cases = []
    for word in told:
        if word in GROUPS:
            cases.append(f"    {word}) _zoned_{word} ;;")
            continue
        verb = VERBS[f"{group} {word}".strip()]
        specs = [_zsh_option(option) for option in _options(verb)]
        specs += [
            _quoted(f"{'*' if argument.is_rest else index}:{argument.name}:{_zsh_action(argument)}")
            for index, argument in enumerate(verb.arguments, 1)
        ]
        cases.append(f"    {word}) _arguments -s {' '.join(specs)} ;;")
    common = " ".join(map(_zsh_option, COMMON if group else (*COMMON, VERSION)))
    level = _ZSH_LEVEL.replace("NAME", f"_zoned_{group}" if group else "_zoned")
    return (
        level.replace("VERBS", verbs).replace("COMMON", common).replace("CASES", "\n".join(cases))
    )


def _zsh_option(option: Option) -> str:
    about = option.about.replace("[", "(").replace("]", ")").replace(":", " -")
    flags = option.flags[-1] if len(option.flags) == 1 else "{" + ",".join(option.flags) + "}"
    value = ""
    if option.metavar:
        action = f"({' '.join(option.offered)})" if option.offered else " "
        paths = {"data_dir": "_files -/", "socket": "_files", "out": "_files"}
        action = paths.get(option.name, action)
        value = f":{option.metavar}:{action}"
    return flags + _quoted(f"[{about}]{value}")


def _zsh_action(argument: Argument) -> str:
    if choices := _choices(argument):
        return f"({' '.join(choices)})"
    if argument.kind in ASKED:
        return f"{{_zoned_ask {argument.kind}}}"
    return "_files" if argument.kind == "file" else " "


_ZSH = """#compdef zoned
# zoned: completion for zsh. Put it on your fpath as _zoned.
_zoned_ask() {
  local -a found dir
  local given=${opt_args[--data-dir]:-$zoned_dir}
  [[ -z $given ]] || dir=(--data-dir ${${(Q)given}/#\\~/$HOME})
  found=(${(f)"$(zoned __complete $1 $dir -- "$PREFIX" 2>/dev/null)"})
  compadd -- ${found:#*:}
  # Behind a colon the name goes on.
  compadd -S '' -- ${(M)found:#*:}
  if [[ $1 == source ]]; then _files; fi
}
LEVELS
if [ "${funcstack[1]}" = _zoned ]; then _zoned "$@"; else compdef _zoned zoned; fi"""


_ZSH_LEVEL = """NAME() {
  local curcontext=$curcontext state zoned_dir=$zoned_dir
  local -a line verbs
  local -A opt_args
  verbs=(
VERBS
  )
  _arguments -C -s COMMON '(-): :->verb' '(-)*:: :->rest' && return
  if [[ $state == verb ]]; then
    _describe command verbs
    return
  fi
  zoned_dir=${opt_args[--data-dir]:-$zoned_dir}
  case "${words[1]}" in
CASES
  esac
}"""


def _fish() -> str:
    valued = [f"{name} {flag}" for name, verb in VERBS.items() for flag in _valued(verb)]
    script = _FISH.replace("VALUED", " ".join(map(_quoted, valued)))
    lines = [script.replace("GROUPS", " ".join(GROUPS))]
    for group in ("", *GROUPS):
        lines += [
            f"complete -c zoned -n '__zoned_at \"{group}\"' -a {word} -d {_quoted(about)}"
            for word, about in _told(group).items()
        ]
    for name, verb in VERBS.items():
        lines += [_fish_option(option, f" -n '__zoned_at \"{name}\"'") for option in verb.options]
        for index, argument in enumerate(verb.arguments):
            at = f"complete -c zoned -n '__zoned_at \"{name}\" {index}'"
            if choices := _choices(argument):
                lines.append(f"{at} -a {_quoted(' '.join(choices))}")
            elif argument.kind in ASKED:
                lines.append(f"{at} -a '(__zoned_ask {argument.kind})'")
            if argument.kind == "file":
                lines.append(f"{at} -F")
            elif argument.kind == "source":
                # Behind the colon of a zone, fish would offer files once more.
                at = at.replace(
                    f" {index}'", f' {index}; and not string match -q "*:*" (commandline -ct)\''
                )
                lines.append(f"{at} -F")
    lines += [_fish_option(option, "") for option in COMMON]
    lines.append(_fish_option(VERSION, " -n '__zoned_at \"\"'"))
    return "\n".join(lines)


def _fish_option(option: Option, at: str) -> str:
    short = f" -s {option.flags[0][1:]}" if len(option.flags) > 1 else ""
    # -x: it has a value, and that is no file.
    value = " -x" if option.metavar else ""
    if option.offered:
        value += f" -a {_quoted(' '.join(option.offered))}"
    paths = {"data_dir": " -x -a '(__fish_complete_directories)'", "socket": " -r -F"}
    value = {**paths, "out": " -r -F"}.get(option.name, value)
    long = option.flags[-1][2:]
    return f"complete -c zoned{at}{short} -l {long}{value} -d {_quoted(option.about)}"


_FISH = """# zoned: completion for fish. Load it with: zoned completion fish | source
function __zoned_ask
    set -l words (commandline -opc)
    set -l dir
    if set -l at (contains -i -- --data-dir $words)
        set dir --data-dir $words[(math $at + 1)]
    end
    zoned __complete $argv[1] $dir -- (commandline -ct) 2>/dev/null
end
# Whether the verb is this one, and so many of its arguments stand there already.
function __zoned_at
    set -l verb ''
    set -l count 0
    set -l is_value 0
    set -l words (commandline -opc)
    for word in $words[2..]
        if test $is_value = 1
            set is_value 0
        else if test "$word" = --data-dir; or contains -- "$verb $word" VALUED
            set is_value 1
        else if not string match -q -- '-?*' "$word"
            if test -z "$verb"
                set verb $word
            else if contains -- "$verb" GROUPS
                set verb "$verb $word"
            else
                set count (math $count + 1)
            end
        end
    end
    test "$verb" = "$argv[1]"; or return 1
    not set -q argv[2]; or test $count = $argv[2]
end
complete -c zoned -f"""


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
