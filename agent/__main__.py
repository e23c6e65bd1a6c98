"""`python -m agent CONFIG`: the node agent."""

from __future__ import annotations

import sys
from pathlib import Path

from agent.config import ConfigError, load
from agent.run import Agent, say


def main(arguments: list[str]) -> int:
    """Exit codes: 0 stopped, 2 wrong use or configuration."""
    if len(arguments) != 1 or arguments[0] in ("-h", "--help"):
        say("usage: python -m agent CONFIG.json\nExample: python -m agent /etc/gpuferry/agent.json")
        return 0 if arguments[:1] in (["-h"], ["--help"]) else 2
    try:
        config = load(Path(arguments[0]))
        Agent(config).run()
    except ConfigError as error:
        say(f"error: {error}")
        return 2
    except OSError as error:
        say(f"error: {config.listen} port {config.port} cannot be used: {error}.")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
