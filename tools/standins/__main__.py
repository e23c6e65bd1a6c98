"""Start one of the two plugins: `python3 tools/standins language|provider ENGINE-ADDRESS`."""

import sys
from pathlib import Path

# Not PYTHONPATH: every command that a stack runs would inherit it.
sys.path[0] = str(Path(__file__).resolve().parents[2])

if sys.argv.pop(1) == "language":
    from tools.standins.language import main
else:
    from tools.standins.provider import main

main()
