"""`start.py CONFIG`: ship until told to stop."""

from __future__ import annotations

import sys

from shipper.config import ConfigError, load
from shipper.run import Shipper, say


def main(arguments: list[str]) -> int:
    """Exit code 2 for a configuration that cannot be used."""
    if len(arguments) != 1:
        say("usage: python3 -m shipper CONFIG")
        return 2
    try:
        shipper = Shipper(load(arguments[0]))
    except ConfigError as error:
        say(f"error: {error}")
        return 2
    shipper.run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
