"""Read `Pulumi.<stack>.yaml`. Apart from the parsing, so that the program need not load YAML."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from gpuferry.errors import SpecError
from gpuferry.spec.load import NAMESPACE, decode, parse_spec
from gpuferry.spec.model import Spec


def load_spec(path: Path, *, secrets_may_come: bool = False) -> Spec:
    """Read `Pulumi.<stack>.yaml`.

    `secrets_may_come`: names of secrets that are not there yet are no mistake; for who sets them.

    Raises:
        SpecError: the file is missing, is no YAML, or declares something that cannot be had.
    """
    try:
        config = read_config(path)
        _refuse_plain_keys(config, path)
        _refuse_plain_secrets(config, path)
        return parse_spec(config, source=path.name, secrets_may_come=secrets_may_come)
    except RecursionError:
        raise SpecError(f"{path.name}: refers to itself, or is nested too deeply.") from None


class _UniqueKeys(yaml.SafeLoader):
    """PyYAML's safe loader, which also refuses a key that is given twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            if key_node.value in seen and key_node.tag != "tag:yaml.org,2002:merge":
                raise yaml.constructor.ConstructorError(
                    problem=f"the key {key_node.value!r} is given twice",
                    problem_mark=key_node.start_mark,
                )
            if isinstance(key_node.value, str):
                seen.add(key_node.value)
        return super().construct_mapping(node, deep)


def _refuse_plain_keys(config: Mapping[str, Any], path: Path) -> None:
    servers = decode(config.get(f"{NAMESPACE}:servers"), unseal=False)
    for index, server in enumerate(servers if isinstance(servers, list) else []):
        ssh = server.get("ssh") if isinstance(server, dict) else None
        key = ssh.get("private_key") if isinstance(ssh, dict) else None
        if key is not None and not (isinstance(key, dict) and set(key) == {"secure"}):
            where = f"{NAMESPACE}:servers[{index}].ssh.private_key"
            raise SpecError(
                f"{path.name}: {where}: the key stands there in clear. Encrypt it: pulumi config "
                f"set --secret --path '{where}' < KEYFILE; and replace the key, it has been seen."
            )


def _refuse_plain_secrets(config: Mapping[str, Any], path: Path) -> None:
    secrets = decode(config.get(f"{NAMESPACE}:secrets"), unseal=False)
    if isinstance(secrets, dict) and set(secrets) == {"secure"}:
        return  # encrypted as a whole
    for name, secret in (secrets if isinstance(secrets, dict) else {}).items():
        value = secret.get("value") if isinstance(secret, dict) else secret
        if value is not None and not (isinstance(value, dict) and set(value) == {"secure"}):
            raise SpecError(
                f"{path.name}: {NAMESPACE}:secrets: a value stands there in clear (entry "
                f"{list(secrets).index(name) + 1}). Remove the entry, set the secret with "
                "./ferry secret set NAME, and replace it where it came from: it has been seen."
            )


def read_config(path: Path) -> dict[str, Any]:
    """Return the `config:` mapping of a stack file, keys with their namespace."""
    try:
        document = yaml.load(path.read_text(encoding="utf-8"), Loader=_UniqueKeys)  # noqa: S506
    except FileNotFoundError:
        raise SpecError(
            f"{path.name}: no such stack file. Create it (Pulumi.local.yaml is an example), or "
            "name another stack with --stack."
        ) from None
    except OSError as error:
        raise SpecError(f"{path.name}: cannot be read ({error.strerror}).") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        where = getattr(error, "problem_mark", None)
        line = f", line {where.line + 1}" if where else ""
        raise SpecError(
            f"{path.name}{line}: not valid YAML ({getattr(error, 'problem', None) or error})."
        ) from None
    if not isinstance(document, dict) or not isinstance(document.get("config"), dict):
        raise SpecError(f"{path.name}: a mapping `config:` with `{NAMESPACE}:` keys is required.")
    return dict(document["config"])
