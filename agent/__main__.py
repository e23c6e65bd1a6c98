"""`python -m agent CONFIG`: the node agent. `python -m agent ask PATH`: what it tells."""

from __future__ import annotations

import sys
from pathlib import Path

from agent.ask import ask
from agent.config import Config, ConfigError, load
from agent.run import Agent, Unusable, say

_CONFIG = "/etc/gpuferry/agent.json"
_PAGES = ("/metrics", "/state", "/healthy")
_USAGE = f"""\
usage: start.py CONFIG.json       run the agent
       start.py ask PATH [CONFIG]  print a page of the running one: {", ".join(_PAGES)}
Example: start.py ask /state      (CONFIG is {_CONFIG} by default)"""


def main(arguments: list[str]) -> int:
    """Exit codes: 0 stopped or answered, 1 nobody answers or no address, 2 wrong use or file."""
    if arguments[:1] in (["-h"], ["--help"]):
        say(_USAGE)
        return 0
    asking = arguments[:1] == ["ask"]
    if len(arguments) not in ((2, 3) if asking else (1,)):
        say(_USAGE)
        return 2
    if asking and "/" + arguments[1].lstrip("/") not in _PAGES:
        say(f"error: {arguments[1]!r} is no page of the agent; accepted: {', '.join(_PAGES)}.")
        return 2
    try:
        config = load(Path([*arguments, _CONFIG][2] if asking else arguments[0]))
    except ConfigError as error:
        say(f"error: {error}")
        return 2
    return _ask(config, arguments[1]) if asking else _run(config)


def _ask(config: Config, path: str) -> int:
    try:
        sys.stdout.write(ask(config, path) + "\n")
    except PermissionError as error:
        say(f"error: {error.filename} may be read by root only. Put sudo before python3.")
        return 1
    except OSError as error:
        say(f"error: the agent does not tell {path}: {error}. See: systemctl status gpuferry-agent")
        return 1
    return 0


def _run(config: Config) -> int:
    try:
        Agent(config).run()
    except Unusable as error:
        # It may be otherwise later, so the unit tries again.
        say(f"error: {error}.")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
