"""What a secret looks like in a text, in variables and in arguments. Pure; runs on the server.

The shapes are the issuers' own documented prefixes; all of them are long enough that prose and
hashes do not match. What is found is described by kind and length, never by a part of itself.
Standard library only.
"""

from __future__ import annotations

import base64
import re
import urllib.parse
from collections.abc import Iterable

SHAPES = {
    "a private key": rb"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY-----\s+[A-Za-z0-9+/=:\s,-]{40}",
    "an AWS access key": rb"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
    "a GitHub token": rb"\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{50,})",
    "a GitLab token": rb"\bglpat-[A-Za-z0-9_-]{20,}",
    "a Hugging Face token": rb"\bhf_[A-Za-z0-9]{30,}\b",
    "an API key (sk-)": rb"\bsk-[A-Za-z0-9_-]{32,}",
    "a Slack token": rb"\bxox[abprs]-[A-Za-z0-9-]{20,}",
    "a Google API key": rb"\bAIza[0-9A-Za-z_-]{35}\b",
    "a PyPI token": rb"\bpypi-[A-Za-z0-9_-]{50,}",
    "an npm token": rb"\bnpm_[A-Za-z0-9]{36}\b",
    "a JSON web token": rb"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{20,}",
}
_SHAPES = {kind: re.compile(shape) for kind, shape in SHAPES.items()}
# Quick to rule out: most files hold none of these.
_ANY = re.compile(
    rb"-----BEGIN |AKIA|ASIA|gh[pousr]_|github_pat_|glpat-|hf_|sk-|xox|AIza|pypi-|npm_|eyJ"
)
_URL = re.compile(rb"[a-z][a-z0-9+.-]*://[^/\s:@\"']{1,64}:([^/\s@\"'$<>{}*]{3,})@")
_NAME = re.compile(
    r"(?:^|[_.-])(?:pass|password|passwd|passphrase|secret|secrets|token|apikey|api[_-]?key|"
    r"access[_-]?key|secret[_-]?key|private[_-]?key|credential|credentials|auth)(?:$|[_.-])",
    re.IGNORECASE,
)
# Names of where a secret is, or of something about it.
_ABOUT = re.compile(
    r"(?:_file|_path|_dir|_url|_uri|_host|_port|_id|_name|_ttl|_type|_sock|_socket|_expiry|_method)$",
    re.IGNORECASE,
)
_NO_VALUE = re.compile(
    r"(?:|true|false|yes|no|none|null|on|off|[0-9]{1,4}|/.*|\./.*|\$.*|<.*>|\{.*\}|\*+|x+|%.*)",
    re.IGNORECASE,
)
# Shorter ones are part of too many words.
LEAST_KNOWN = 6


def known_forms(known: dict[str, str]) -> dict[bytes, str]:
    """Bytes to look for to the name of the secret: as it is, in base64 and as part of a URL."""
    forms: dict[bytes, str] = {}
    for name, value in known.items():
        plain = value.strip()
        if len(plain) < LEAST_KNOWN:
            continue
        first = plain.splitlines()[0].strip()
        for text in {plain, *([first] if len(first) >= 12 else [])}:
            raw = text.encode()
            forms[raw] = name
            forms[urllib.parse.quote(text, safe="").encode()] = name
            # Without the end, which depends on what follows.
            if len(raw) >= 9:
                forms[base64.b64encode(raw)[: len(raw) // 3 * 4]] = name
    return forms


def in_text(data: bytes, forms: dict[bytes, str]) -> list[str]:
    """Descriptions of all secrets in some bytes."""
    found = {f"the secret {name}" for form, name in forms.items() if form in data}
    if _ANY.search(data):
        for kind, shape in _SHAPES.items():
            for match in shape.finditer(data):
                size = f" ({len(match.group())} characters)"
                found.add(kind + ("" if "private" in kind else size))
    if b"://" in data and b"@" in data:
        for match in _URL.finditer(data):
            found.add(f"a password in a URL ({len(match.group(1))} characters)")
    return sorted(found)


def is_named_secret(name: str, value: str) -> bool:
    """Whether a variable or an option holds a secret, to judge by its name."""
    if _ABOUT.search(name) or not _NAME.search(name):
        return False
    return not _NO_VALUE.fullmatch(value.strip())


def in_variables(variables: Iterable[str], forms: dict[bytes, str]) -> dict[str, list[str]]:
    """Variable name to descriptions, of `NAME=value` texts."""
    found = {}
    for text in variables:
        name, _, value = text.partition("=")
        said = in_text(value.encode(errors="surrogateescape"), forms)
        if not said and is_named_secret(name, value):
            said = [f"a value of {len(value)} characters under a secret's name"]
        if said:
            found[name] = said
    return found


def in_arguments(words: list[str], forms: dict[bytes, str]) -> list[str]:
    """Descriptions of all secrets in a command line: by value, and by the name of an option."""
    found = set(in_text("\n".join(words).encode(errors="surrogateescape"), forms))
    for word, following in zip(words, [*words[1:], ""]):  # noqa: B905 -- Python 3.9 on servers
        option, equals, value = word.partition("=")
        if not option.startswith("-") and not equals:
            continue
        given = value if equals else following
        if not given.startswith("-") and is_named_secret(option.lstrip("-"), given):
            found.add(f"a value of {len(given)} characters with {option}")
    return sorted(found)
