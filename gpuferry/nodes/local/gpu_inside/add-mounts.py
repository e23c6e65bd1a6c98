#!/usr/bin/python3
"""Runs on a local server: add folders to a CDI specification, for every container with GPUs."""

import json
import os
import sys

path, *folders = sys.argv[1:]
with open(path, encoding="utf-8") as handle:
    specification = json.load(handle)
mounts = specification.setdefault("containerEdits", {}).setdefault("mounts", [])
known = {mount["hostPath"] for mount in mounts}
for folder in folders:
    if folder not in known:
        options = ["rbind", "rprivate"]
        mounts.append({"hostPath": folder, "containerPath": folder, "options": options})
draft = f"{path}.draft"
with open(draft, "w", encoding="utf-8") as handle:
    json.dump(specification, handle, indent=1)
os.rename(draft, path)
