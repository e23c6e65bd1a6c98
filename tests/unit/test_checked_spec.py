"""What a stack file on this machine is refused for, before anything is made."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuferry.engine.project import Project
from gpuferry.errors import SpecError
from gpuferry.operate.checked_spec import checked_spec


@pytest.mark.parametrize(
    ("gpu", "refusal"),
    [
        ({"model": "L4O"}, ".model: GPU model 'L4O' cannot be simulated"),
        ({"model": "L4", "mig": ["1g.5gb"]}, ".mig: a GPU with PCI id 10de:27b8 cannot be cut"),
        ({"model": "A100-80", "mig": ["1g.5gb"]}, ".mig: there is no MIG profile '1g.5gb'"),
        (
            {"model": "A100-80", "mig": {0: ["7g.80gb", "1g.10gb"]}},
            ".mig: 7g.80gb + 1g.10gb do not fit on one GPU together.",
        ),
        ({"model": "A100-80", "mig": ["3g.40gb", "2g.20gb", "1g.10gb"]}, ""),
        ({"model": "L4", "mig": []}, ""),
    ],
)
def test_gpus_of_local_servers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gpu: dict[str, Any], refusal: str
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    server = {"name": "gpu-1", "cpus": 1, "memory_gib": 0.5, "data_disk_gib": 1}
    config = {"gpuferry:servers": [{**server, "gpu": {"count": 1, **gpu}}]}
    (tmp_path / "Pulumi.yaml").write_text("name: gpuferry\nruntime: python\n")
    (tmp_path / "Pulumi.mine.yaml").write_text(yaml.safe_dump({"config": config}))
    project = Project(tmp_path, "mine")
    if not refusal:
        assert checked_spec(project).servers[0].gpu is not None
        return
    with pytest.raises(SpecError, match=re.escape(f"gpuferry:servers[0].gpu{refusal}")):
        checked_spec(project)
