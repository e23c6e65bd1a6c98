#!/usr/bin/python
"""Wait until the server's own first boot is over."""

from __future__ import annotations

import json
import shutil
import subprocess
import time

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: first_boot
short_description: Wait until the server's own first boot is over
description:
  - SSH answers before cloud-init has ended; what is configured before that is changed again under
    our hands. Running and not yet started are waited for, done and disabled are fine, degraded is
    a warning, error is a failure. A server without cloud-init has nothing to wait for.
options:
  timeout_seconds:
    description: How long to wait for cloud-init.
    type: int
  accept_error:
    description: Go on after a cloud-init error, with a warning.
    type: bool
author: [gpuferry]
"""

UNFINISHED = ("running", "not run", "not started")


def status():
    """cloud-init's status word, and what it says went wrong, from either format of its answer."""
    done = subprocess.run(
        ["cloud-init", "status", "--format", "json"],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        done = subprocess.run(
            ["cloud-init", "status", "--long"],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )
        word = next(
            (
                line.split(":", 1)[1].strip()
                for line in done.stdout.splitlines()
                if line.startswith("status:")
            ),
            "error",
        )
        detail = done.stdout.partition("detail:")[2] or done.stderr
        answer = {"status": word, "errors": [" ".join(detail.split())]}
    word = answer.get("status", "error")
    recoverable = [
        f"{level}: {text}"
        for level, texts in (answer.get("recoverable_errors") or {}).items()
        for text in texts
    ]
    errors = [str(error) for error in answer.get("errors") or []]
    if word == "degraded" or (
        word == "done" and (done.returncode == 2 or "degraded" in answer.get("extended_status", ""))
    ):
        return "degraded", recoverable or errors
    if word not in UNFINISHED and done.returncode == 1:
        word = "error"
    return word, errors or recoverable or [str(answer.get("detail", "no detail given"))]


def main():
    module = AnsibleModule(
        argument_spec={
            "timeout_seconds": {"type": "int", "required": True},
            "accept_error": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    if not shutil.which("cloud-init"):
        module.exit_json(changed=False, cloud_init="absent")
    seconds = module.params["timeout_seconds"]
    deadline = time.monotonic() + seconds
    word, errors = status()
    while word in UNFINISHED and time.monotonic() < deadline:
        time.sleep(1)
        word, errors = status()
    if word in UNFINISHED:
        module.fail_json(
            msg=f"cloud-init is still '{word}' after {seconds} seconds. See "
            "`cloud-init status --long` on the server, or allow more time with "
            "base_first_boot_timeout_seconds."
        )
    if word == "error" and not module.params["accept_error"]:
        module.fail_json(
            msg=f"cloud-init failed: {'; '.join(errors)}. The server may be half "
            "set up: make it anew, or repair it and set base_cloud_init_error_accepted to go on."
        )
    if word in ("degraded", "error"):
        module.warn(f"cloud-init ended {word}: {'; '.join(errors)}")
    module.exit_json(
        changed=False, cloud_init=word, errors=errors if word in ("degraded", "error") else []
    )


if __name__ == "__main__":
    main()
