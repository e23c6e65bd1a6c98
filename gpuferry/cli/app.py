"""All commands, and the one place where errors become messages and exit codes."""

from __future__ import annotations

import json
import sys

import typer

from gpuferry.cli import (
    audit,
    bench,
    check,
    converge,
    dashboard,
    data,
    doctor,
    down,
    driver,
    env,
    image,
    lint,
    logs,
    nodes,
    plan,
    preview,
    rebuild,
    resize,
    secret,
    sim,
    ssh,
    test,
    top,
    up,
)
from gpuferry.cli.options import told
from gpuferry.errors import FerryError

app = typer.Typer(
    name="ferry",
    help="Bring up GPU servers that are hardened and verified. Start with: ./ferry up",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (
    audit, up, preview, down, nodes, ssh, converge, check, plan, driver, resize, rebuild, secret,
    data, logs, image, sim, top, dashboard, doctor, env, test, lint, bench,
):  # fmt: skip
    command.register(app)


def run() -> None:
    """Run the command line and exit."""
    try:
        app(prog_name="./ferry")
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(141)
    except FerryError as error:
        text = told(error)
        own = sys.argv[: sys.argv.index("--")] if "--" in sys.argv else sys.argv
        if "--json" in own:
            print(json.dumps({"ok": False, "error": text, "exit_code": error.exit_code}))
        else:
            print(f"error: {text}", file=sys.stderr)
        sys.exit(error.exit_code)
    except OSError as error:
        # A full disk, a folder that cannot be written: the system's own words name it.
        where = f"{error.filename}: " if error.filename else ""
        print(f"error: {where}{error.strerror or error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
