"""Edit a stack file's text: the audit's keys change, comments and everything else stay."""

from __future__ import annotations

import io
import json
import re
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import YAMLError

from gpuferry.audit.apply.names import Written, continued
from gpuferry.audit.apply.wishes import Wish
from gpuferry.errors import SpecError

LABEL, _FOR = "audit", "workloads"
_SERVERS, _STORES = "gpuferry:servers", "gpuferry:object_stores"
_PROVIDER, _FIREWALL = "gpuferry:provider", "gpuferry:firewall"
_NEW = "# Servers chosen by `./ferry audit apply`; comments and other keys stay on a next run.\n"


def edit(
    text: str, wishes: list[Wish], *, provider: str, bucket: bool, ssh_from: list[str]
) -> tuple[str, list[str]]:
    """The new text, and what was kept because a person had changed it.

    An entry's label `audit` records what was written last; a value that is not from there is
    written by hand and wins. A data disk never shrinks.

    Raises:
        SpecError: the file is not YAML, or its servers are not a plain list.
    """
    yaml = _yaml(text)
    try:
        document = yaml.load(text) if text.strip() else CommentedMap()
    except (YAMLError, RecursionError, ValueError) as error:
        why = str(getattr(error, "problem", None) or error).splitlines()[0]
        raise SpecError(f"the stack file is not valid YAML ({why}).") from None
    if document is None:
        document = CommentedMap()
    if not isinstance(document, CommentedMap):
        raise SpecError("the stack file has to be a mapping with `config:`.")
    config = document.setdefault("config", CommentedMap())
    if not isinstance(config, CommentedMap):
        raise SpecError("the stack file's `config:` has to be a mapping.")
    config.setdefault(_PROVIDER, provider)
    kept = _servers(config, wishes)
    if bucket and provider == "local" and not config.get(_STORES):
        config[_STORES] = CommentedSeq([_flow({"name": "datasets", "versioning": True})])
    if ssh_from:
        firewall = config.setdefault(_FIREWALL, CommentedMap())
        there = firewall.setdefault("ssh_from", CommentedSeq())
        there.extend(network for network in ssh_from if network not in there)
    out = io.StringIO()
    yaml.dump(document, out)
    return (out.getvalue() if text.strip() else _NEW + out.getvalue()), kept


def _servers(config: CommentedMap, wishes: list[Wish]) -> list[str]:
    there = config.setdefault(_SERVERS, CommentedSeq())
    if not isinstance(there, CommentedSeq) or not all(isinstance(s, CommentedMap) for s in there):
        raise SpecError(f"{_SERVERS} has to be a YAML list of mappings to be edited.")
    by_name = {str(server.get("name")): server for server in there}
    records = {name: _label(server) for name, server in by_name.items()}
    written = {
        name: Written(_record(labels[LABEL]).get("gpu"), frozenset(_ids(labels.get(_FOR))))
        for name, labels in records.items() if LABEL in labels
    }  # fmt: skip
    wishes, left = continued(wishes, written, frozenset(set(by_name) - set(written)))
    kept = [
        f"{name}: from an earlier audit, not in this plan any more; remove the entry if it is not "
        "needed" for name in left
    ]  # fmt: skip
    for wish in wishes:
        server = by_name.get(wish.name)
        if server is None:
            # In the order of the wish; there are no comments to be kept in place yet.
            values = {k: _flow(v) if isinstance(v, dict) else v for k, v in wish.values.items()}
            server = CommentedMap({"name": wish.name, **values, "labels": CommentedMap()})
            there.append(server)
        kept += _server(server, wish)
    return kept


def _server(server: CommentedMap, wish: Wish) -> list[str]:
    last = _record(_label(server).get(LABEL))
    kept, wrote = [], {}
    for key, value in wish.values.items():
        now = _plain(server.get(key))
        hand = now is not None and now != value and (key not in last or now != last[key])
        shrinks = key == "data_disk_gib" and isinstance(now, int) and now > value
        if hand or shrinks:
            why = "a disk only grows" if shrinks and not hand else "written by hand"
            kept.append(
                f"{wish.name}.{key}: {json.dumps(now)} stays ({why}; audit: {json.dumps(value)})"
            )
            wrote[key] = last.get(key, value)
            continue
        wrote[key] = value
        if now == value:
            continue
        there = server.get(key)
        if isinstance(value, dict) and isinstance(there, CommentedMap) and not there.yaml_anchor():
            there.update(value)  # with an anchor it would change wherever it is referred to
        else:
            _put(server, key, _flow(value) if isinstance(value, dict) else value)
    if not isinstance(server.get("labels"), CommentedMap):
        _put(server, "labels", CommentedMap())
    record = " ".join(f"{k}={json.dumps(v, separators=(',', ':'))}" for k, v in wrote.items())
    server["labels"][LABEL] = record
    server["labels"][_FOR] = _short(wish.ids)
    return kept


def _put(mapping: CommentedMap, key: str, value: Any) -> None:
    """Set a key; a new one goes before the last, to which comments behind the entry belong."""
    if key in mapping or len(mapping) < 2:
        mapping[key] = value
    else:
        mapping.insert(len(mapping) - 1, key, value)


def _short(ids: tuple[str, ...]) -> str:
    shown = ", ".join(ids[:10])
    return shown if len(ids) <= 10 else f"{shown} and {len(ids) - 10} more"


def _label(server: CommentedMap) -> dict[str, Any]:
    labels = server.get("labels")
    return labels if isinstance(labels, dict) else {}


def _ids(label: Any) -> list[str]:
    return re.sub(r" and \d+ more$", "", str(label or "")).split(", ")


def _record(label: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for part in str(label or "").split(" "):
        key, _, value = part.partition("=")
        try:
            found[key] = json.loads(value)
        except ValueError:
            continue
    return found


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, CommentedMap) else value


def _flow(values: dict[str, Any]) -> CommentedMap:
    mapping = CommentedMap(values)
    mapping.fa.set_flow_style()
    return mapping


def _yaml(text: str) -> YAML:
    """A round trip that writes with the indentation that the file has."""
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 4096
    yaml.allow_duplicate_keys = False
    match = re.search(
        r"^( *)[^\s#-][^\n]*:[ \t]*(?:#[^\n]*)?\n(?:[ \t]*(?:#[^\n]*)?\n)*( *)- ", text, re.M
    )
    offset = len(match.group(2)) - len(match.group(1)) if match else 2
    inner = re.search(r"^( +)[^\s#-]", text, re.M)
    yaml.indent(mapping=len(inner.group(1)) if inner else 2, sequence=offset + 2, offset=offset)
    return yaml
