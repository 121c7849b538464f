"""Secrets made from a seed, as issuers make them, and values that are harmless.

No secret stands here: they are put together when a test runs, and so are their prefixes, lest those
who search for lost keys find any.
"""

import base64
import hashlib
import random
import string
import uuid
from collections.abc import Callable

LOWER, UPPER, DIGITS = string.ascii_lowercase, string.ascii_uppercase, string.digits
HEX = DIGITS + "abcdef"
MIXED = LOWER + UPPER + DIGITS
ADDRESS = MIXED + "-_"


def _encoded(chance: random.Random, size: int) -> str:
    return base64.b64encode(chance.randbytes(size)).decode()


def _token(chance: random.Random) -> str:
    head = base64.urlsafe_b64encode(b'{"alg":"HS256","typ":"JWT"}').decode().rstrip("=")
    body = f'{{"sub":"{chance.randrange(10**9)}","exp":{chance.randrange(10**9)}}}'
    claims = base64.urlsafe_b64encode(body.encode()).decode().rstrip("=")
    signature = base64.urlsafe_b64encode(chance.randbytes(32)).decode().rstrip("=")
    return f"{head}.{claims}.{signature}"


def _private_key(chance: random.Random) -> str:
    kind = chance.choice(["RSA ", "EC ", "OPENSSH ", "ENCRYPTED ", ""])
    name = f"{kind}PRIVATE KEY-----"
    return f"-----BEGIN {name}\n{_encoded(chance, 90)}\n-----END {name}"


def _of(prefix: str, alphabet: str, size: int, end: str = "") -> Callable[[random.Random], str]:
    def make(chance: random.Random) -> str:
        return prefix + "".join(chance.choices(alphabet, k=size)) + end

    return make


# By issuer: the name of a variable it may be kept in, and how one is made. `note` and `x` say
# nothing of what they hold, so the value itself must tell.
MAKERS: list[tuple[str, Callable[[random.Random], str]]] = [
    ("note", _of("sk-" + "ant-api03-", ADDRESS, 93, "AA")),
    ("note", _of("sk-" + "ant-", HEX, 32)),
    ("header", _of("Bearer ", HEX, 40)),
    ("header", _of("Authorization: Bearer ", HEX, 64)),
    ("header", _of("bearer ", MIXED, 24)),
    ("header", _of("Authorization: Basic ", MIXED, 32)),
    ("note", _of("sk-" + "proj-", ADDRESS, 120)),
    ("note", _of("sk-", MIXED, 48)),
    ("note", _of("sk-" + "or-v1-", HEX, 64)),
    ("note", _of("AK" + "IA", UPPER + "234567", 16)),
    ("note", _of("AS" + "IA", UPPER + "234567", 16)),
    ("note", _of("", MIXED + "+/", 40)),
    ("AWS_SECRET_ACCESS_KEY", _of("", MIXED + "+/", 40)),
    ("note", _of("gh" + "p_", MIXED, 36)),
    ("note", _of("gh" + "o_", MIXED, 36)),
    ("note", _of("gh" + "s_", MIXED, 36)),
    ("note", _of("github" + "_pat_", MIXED + "_", 82)),
    ("note", _of("gl" + "pat-", ADDRESS, 20)),
    ("note", _of("xox" + "b-", DIGITS, 12, "-123456789012-" + "aB3" * 8)),
    ("note", _of("xox" + "p-", DIGITS + "-", 40)),
    ("note", _of("xapp" + "-1-", UPPER + DIGITS, 40)),
    ("note", _of("https://hooks.slack" + ".com/services/T0", UPPER, 8, "/B0123456/" + "aB3" * 8)),
    ("note", _token),
    ("header", lambda chance: "Bearer " + _token(chance)),
    ("note", _private_key),
    ("note", _of("AI" + "za", ADDRESS, 35)),
    ("note", _of("ya" + "29.", ADDRESS, 80)),
    ("note", _of("GOC" + "SPX-", ADDRESS, 28)),
    ("note", _of("sk_" + "live_", MIXED, 24)),
    ("note", _of("rk_" + "test_", MIXED, 24)),
    ("note", _of("wh" + "sec_", MIXED, 32)),
    ("note", lambda chance: f"SG.{_of('', ADDRESS, 22)(chance)}.{_of('', ADDRESS, 43)(chance)}"),
    ("note", _of("A" + "C", HEX, 32)),
    ("note", _of("key-", HEX, 32)),
    ("note", _of("", HEX, 32, "-us12")),
    ("note", _of("np" + "m_", MIXED, 36)),
    ("note", _of("py" + "pi-AgEI", ADDRESS, 120)),
    ("note", _of("h" + "f_", LOWER + UPPER, 34)),
    ("note", _of("gs" + "k_", MIXED, 52)),
    ("note", _of("do" + "p_v1_", HEX, 64)),
    ("note", _of("da" + "pi", HEX, 32)),
    ("note", _of("sh" + "pat_", HEX, 32)),
    ("note", _of("1234567890:AA", ADDRESS, 33)),
    ("note", _of("AccountName=a;Account" + "Key=", MIXED + "+/", 86, "==")),
    ("note", _of("hv" + "s.", ADDRESS, 90)),
    ("note", _of("lin" + "_api_", MIXED, 40)),
    ("note", _of("postgres://app:", MIXED, 16, "@db.example.com:5432/app")),
    ("note", _of("https://api.example.com/v1?token=", HEX, 32)),
    ("note", _of("export SERVICE_API_KEY=", LOWER + DIGITS, 30)),
    ("note", _of('{"api_key": "', HEX, 32, '"}')),
    ("x", _of("", MIXED, 32)),
    ("x", _of("", MIXED, 64)),
    ("x", lambda chance: _encoded(chance, 32)),
    ("x", lambda chance: _encoded(chance, 64)),
    ("AZURE_DEVOPS", _of("", LOWER + "234567", 52)),
    ("OPENAI_API_KEY", _of("", HEX, 32)),
    ("apiKey", _of("", LOWER + DIGITS, 20)),
    ("GITHUB_TOKEN", _of("", HEX, 40)),
    ("client_secret", _of("", MIXED + "-_.~", 34)),
    ("db-password", _of("", MIXED + "!#%&", 20)),
    ("HEROKU_API_KEY", lambda chance: str(uuid.UUID(int=chance.getrandbits(128)))),
]  # fmt: skip

WORDS = [
    "agent", "build", "cache", "deploy", "editor", "feature", "gateway", "handler", "index",
    "journal", "kernel", "login", "module", "network", "output", "parser", "query", "router",
    "session", "token", "transcript", "update", "version", "worker",
]  # fmt: skip


def secrets(seed: int, count: int) -> list[tuple[str, str]]:
    """So many names with secrets, of all makers in turn."""
    chance = random.Random(seed)
    return [(name, make(chance)) for name, make in (MAKERS * count)[:count]]


def harmless(seed: int, count: int) -> list[tuple[str, str]]:
    """So many names with values that anybody may see."""
    chance = random.Random(seed)
    return [(name, make(chance)) for name, make in (_PLAIN * count)[:count]]


def _words(chance: random.Random, joint: str, count: int) -> str:
    return joint.join(chance.choices(WORDS, k=count))


def _camel(chance: random.Random) -> str:
    return "".join(word.title() for word in chance.choices(WORDS, k=5))


def _hash(chance: random.Random, kind: str) -> str:
    return hashlib.new(kind, chance.randbytes(8)).hexdigest()


def _number(chance: random.Random) -> str:
    return ".".join(str(chance.randrange(40)) for _ in range(3))


_PLAIN: list[tuple[str, Callable[[random.Random], str]]] = [
    ("path", lambda c: f"/srv/{_words(c, '/', 4)}.py"),
    ("path", lambda c: f"C:\\Users\\dev\\{_words(c, chr(92), 4)}.txt"),
    ("path", lambda c: f"~/Projects/{_camel(c)}{c.randrange(99)}/src/{_camel(c)}.tsx"),
    ("path", lambda c: f"/nix/store/{_of('', LOWER + DIGITS, 32)(c)}-{_words(c, '-', 2)}"),
    ("run", lambda c: str(uuid.UUID(int=c.getrandbits(128)))),
    ("run", lambda c: str(uuid.UUID(int=c.getrandbits(128))).upper()),
    ("run", lambda c: f"agent-20260131-093000-{_of('', HEX, 8)(c)}"),
    ("run", _of("01", UPPER + DIGITS, 24)),
    ("commit", lambda c: _hash(c, "sha1")),
    ("commit", lambda c: f"{_words(c, '/', 2)}@{_hash(c, 'sha1')}"),
    ("digest", lambda c: f"sha256:{_hash(c, 'sha256')}"),
    ("digest", lambda c: _hash(c, "sha512")),
    ("digest", lambda c: _hash(c, "md5")),
    ("integrity", lambda c: f"sha512-{_encoded(c, 64)}"),
    ("public", lambda c: f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{_of('', MIXED, 43)(c)} dev@host"),
    ("media", lambda c: f"media://sha256-{_hash(c, 'sha256')}"),
    ("text", lambda c: _words(c, " ", 12).capitalize() + "."),
    ("text", lambda c: f"The {_words(c, ' ', 3)} has a bearer token, says {_camel(c)}"),
    ("name", lambda c: _words(c, "-", 6)),
    ("name", lambda c: _words(c, "_", 6).upper()),
    ("name", _camel),
    ("name", lambda c: f"{_camel(c)[:20]}V{c.randrange(9)}Test{c.randrange(99)}"),
    ("module", lambda c: _words(c, ".", 5)),
    ("url", lambda c: f"https://example.com/{_words(c, '/', 3)}?page=2&q={_words(c, '+', 2)}"),
    ("url", lambda c: f"https://docs.example.com/document/d/{_of('', ADDRESS, 44)(c)}/edit"),
    ("url", lambda c: f"http://localhost:{c.randrange(1000, 9999)}/{_words(c, '/', 2)}"),
    ("url", lambda c: f"git@example.com:{_words(c, '/', 2)}.git"),
    ("version", lambda c: f"v{_number(c)}"),
    ("version", lambda c: f"{_number(c)}-rc.{c.randrange(9)}+build.{c.randrange(9999)}"),
    ("version", lambda c: f"python-{_number(c)}-linux-x86_64-gnu"),
    ("image", lambda c: f"a.io/{_words(c, '/', 2)}:{_number(c)}@sha256:{_hash(c, 'sha256')}"),
    ("model", lambda c: f"claude-{c.choice(WORDS)}-4-5-2025{c.randrange(1000, 1231)}"),
    ("time", lambda c: f"2026-01-31T09:{c.randrange(10, 60)}:00.000+02:00"),
    ("number", lambda c: str(c.randrange(10**30))),
    ("mail", lambda c: f"{_words(c, '.', 2)}@example.com"),
    ("MAX_TOKENS", lambda c: str(c.randrange(100000))),
    ("tokenizer", lambda c: f"{_words(c, '-', 3)}-v{c.randrange(9)}"),
    ("token_file", lambda c: f"/run/credentials/{_words(c, '-', 2)}-{c.randrange(99)}"),
    ("GITHUB_TOKEN", lambda c: "${" + _words(c, "_", 2).upper() + "_2}"),
    ("GITHUB_TOKEN", lambda c: f"<your {_words(c, ' ', 2)} token>"),
    ("API_KEY", lambda c: f"op://{_words(c, '/', 3)}/field1"),
    ("api_key_name", lambda c: _words(c, "-", 3)),
    ("passwordPolicy", lambda c: f"{_words(c, '-', 3)}"),
    ("command", lambda c: f"make {_words(c, ' ', 3)} ARGS=--{_words(c, '-', 3)}={c.randrange(99)}"),
    ("code", lambda c: f"def {_words(c, '_', 3)}(token: str = '') -> {_camel(c)}: ..."),
    ("json", lambda c: f'{{"{c.choice(WORDS)}": {{"max_tokens": {c.randrange(9999)}}}}}'),
    ("glob", lambda c: f"src/**/*.{{{_words(c, ',', 3)}}}"),
    ("cron", lambda c: f"*/{c.randrange(1, 59)} 0-23 1,15 * 1-5"),
]  # fmt: skip
