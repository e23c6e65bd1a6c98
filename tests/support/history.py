"""What a server's Prometheus remembers: forgotten, damaged, or hours that were not waited for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from tests.support.node import Node
from tests.support.simulated import wait_until

_STORE = "/var/lib/gpuferry-prometheus"
_STEP_SECONDS = 30
_HOURS = 6.5


def fires(node: Node, alert: str) -> bool:
    """Whether Prometheus itself says so: some alerts cannot be delivered."""
    return bool(_ask(node, f'ALERTS{{alertname="{alert}",alertstate="firing"}}'))


def forget(node: Node) -> None:
    """Begin anew, with nothing remembered and so nothing firing."""
    node.run(
        "systemctl stop gpuferry-prometheus gpuferry-alertmanager; "
        f"rm -rf {_STORE}/* /var/lib/gpuferry-alertmanager/*; "
        "systemctl start gpuferry-alertmanager gpuferry-prometheus"
    )


def damage(node: Node) -> None:
    """Overwrite a part of the write-ahead log, as a failing disk would."""
    node.run(
        "systemctl stop gpuferry-prometheus; "
        f"log=$(ls {_STORE}/wal/0* | tail -1); "
        'dd if=/dev/urandom of="$log" bs=1 count=2000 seek=$(($(stat -c %s "$log") / 2)) '
        "conv=notrunc status=none; systemctl start gpuferry-prometheus"
    )


def give(node: Node, *, gpu: str, filling: str) -> None:
    """Give it hours of a GPU that was used at 90 %, and of a disk that was filled steadily.

    `gpu` is the index of the GPU and `filling` the mount. Up to a minute ago; from then on
    Prometheus asks the agent itself. Series have the labels that the real ones have.
    """
    this = f'and on (uuid) gpu_info{{index="{gpu}"}}'
    used = _labels(node, f'gpu_utilization_minute_ratio{{of="mean"}} {this}')
    held = _labels(node, f"gpu_processes {this}")
    mount = f'{{mount="{filling}"}}'
    free = _labels(node, f"node_agent_disk_free_bytes{mount}")
    # The agent looks at disks twice a minute.
    full = f"node_agent_disk_free_bytes{mount} < 0.4 * node_agent_disk_size_bytes{mount}"
    wait_until(f"less space on {filling}", lambda: _ask(node, full), 60)
    now_free = float(_ask(node, full)[0]["value"][1])
    size = float(_ask(node, f"node_agent_disk_size_bytes{mount}")[0]["value"][1])
    end = float(node.run("date +%s")) - 60
    moments = [end - s for s in range(int(_HOURS * 3600), -1, -_STEP_SECONDS)]
    lost = 0.9 * size - now_free

    def disk(moment: float) -> float:
        return now_free + lost * (end - moment) / (_HOURS * 3600)

    series = [
        # Ten minutes ago the job began to wait for something.
        *_lines(used, moments, lambda m: 0.9 if m < end - 600 else 0.2),
        *_lines(held, moments, lambda m: 1),
        *_lines(free, moments, disk),
    ]
    node.run(
        "systemctl stop gpuferry-prometheus; "
        f"rm -rf {_STORE}/*; cat > /run/history.txt <<'END'\n"
        + "\n".join([*series, "# EOF", "END", ""])
        + f"promtool tsdb create-blocks-from openmetrics /run/history.txt {_STORE} >/dev/null; "
        f"chown -R --reference={_STORE}/ {_STORE}/; "
        "systemctl start gpuferry-prometheus"
    )  # fmt: skip


def _labels(node: Node, query: str) -> dict[str, str]:
    """Of the one series that the query finds, with its name."""
    wait_until(query, lambda: len(_ask(node, query)) == 1, 60)
    found: dict[str, str] = _ask(node, query)[0]["metric"]
    return found


def _lines(
    labels: dict[str, str], moments: list[float], value: Callable[[float], float]
) -> Iterator[str]:
    name = labels["__name__"]
    inside = ",".join(f"{k}={json.dumps(v)}" for k, v in labels.items() if k != "__name__")
    yield f"# TYPE {name} gauge"
    for moment in moments:
        yield f"{name}{{{inside}}} {value(moment)} {moment:.0f}"


def _ask(node: Node, query: str) -> list[dict[str, Any]]:
    """An instant query of the server's Prometheus; empty while it does not answer."""
    said = node.run(
        "promtool query instant --format json http://127.0.0.1:9752 "
        f"'{query}' 2>/dev/null || echo '[]'"
    )
    found: list[dict[str, Any]] = json.loads(said)
    return found
