"""Turn a stack's configuration into a spec, and every mistake into one or two sentences."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from gpuferry.errors import SpecError
from gpuferry.spec.model import Spec

NAMESPACE = "gpuferry"


def parse_spec(
    config: Mapping[str, Any], source: str = "config", *, secrets_may_come: bool = False
) -> Spec:
    """Turn the namespaced configuration into a :class:`Spec`.

    `secrets_may_come`: names of secrets that are not there yet are no mistake.

    Values may be JSON texts, as Pulumi hands them to programs. Encrypted values
    (`secure:`) stay unread here: they become a placeholder, since only the engine can decrypt.
    """
    values: dict[str, Any] = {}
    for key, value in config.items():
        namespace, _, name = str(key).partition(":")
        if namespace == NAMESPACE:
            values[name] = decode(value)
        elif not name:
            raise SpecError(
                f"{source}: the key {key!r} lacks its namespace; write {NAMESPACE}:{key}."
            )
    try:
        return Spec.model_validate(values, context={"secrets_may_come": secrets_may_come})
    except ValidationError as error:
        raise SpecError(_explain(error, source)) from None


def decode(value: Any, *, unseal: bool = True) -> Any:
    """A value as it was declared: JSON texts parsed, encrypted values replaced."""
    if isinstance(value, str):
        try:
            decoded = json.loads(value)
        except ValueError:
            return value
        return decoded if isinstance(decoded, dict | list) else value
    return _unseal(value) if unseal else value


def _unseal(value: Any) -> Any:
    if isinstance(value, dict):
        if set(value) == {"secure"}:
            return "(secret)"
        return {key: _unseal(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_unseal(item) for item in value]
    return value


def _explain(error: ValidationError, source: str) -> str:
    # An unknown key is often the reason why another is missing: it comes first.
    problems = sorted(
        _of_its_shape(error.errors(include_url=False)),
        key=lambda problem: problem["type"] != "extra_forbidden",
    )
    first = _sentence(problems[0])
    more = len(problems) - 1
    tail = f" ({more} more problem{'s' if more > 1 else ''} after this one.)" if more else ""
    return f"{source}: {first}{tail}"


def _is_shape(part: int | str) -> bool:
    """Pydantic's name for one of several shapes that a value may have; no key of the file."""
    return isinstance(part, str) and "[" in part


def _of_its_shape(problems: list[ErrorDetails]) -> list[ErrorDetails]:
    """Without "not a list" about what was written as a mapping, and the like."""
    places = [p["loc"] for p in problems]
    inside = {loc[:i] for loc in places for i, part in enumerate(loc[:-1]) if _is_shape(part)}

    def of_another(loc: tuple[int | str, ...]) -> bool:
        return bool(loc) and _is_shape(loc[-1]) and loc[:-1] in inside

    return [p for p in problems if not of_another(p["loc"])]


def _path(location: tuple[int | str, ...]) -> str:
    text = ""
    for part in location:
        if not _is_shape(part):
            text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return f"{NAMESPACE}:{text.lstrip('.')}" if text else ""


def _sentence(problem: ErrorDetails) -> str:
    location = problem["loc"]
    where, kind, context = _path(location), problem["type"], problem.get("ctx", {})
    given = problem["input"]
    if kind == "extra_forbidden":
        return _unknown_key(location, where)
    if kind == "missing":
        return f"{where}: required, but missing."
    if kind == "literal_error":
        return f"{where}: {given!r} is not accepted; accepted: {context['expected']}."
    if kind == "value_error":
        text = str(context["error"])
        prefix = f"{where}: " if where else f"{NAMESPACE}:"
        return f"{prefix}{text}" if text.endswith("?") else f"{prefix}{text}."
    if kind == "model_type":
        keys = ", ".join(_fields_at(location))
        return f"{where}: not a single value, but a mapping of {keys}{_got(location, given)}."
    return f"{where}: {problem['msg'][0].lower()}{problem['msg'][1:]}{_got(location, given)}."


def _got(location: tuple[int | str, ...], value: object) -> str:
    # What stands in the place of a secret may be one, whatever is wrong with it.
    if location and (location[-1] in ("private_key", "secret_key") or location[0] == "secrets"):
        return ""
    text = repr(value)
    return f" (got {text if len(text) <= 40 else f'{text[:37]}…'})"


def _unknown_key(location: tuple[int | str, ...], where: str) -> str:
    fields = _fields_at(location[:-1])
    near = difflib.get_close_matches(str(location[-1]), fields, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"accepted: {', '.join(fields)}."
    return f"{where}: unknown key; {hint}"


def _fields_at(location: tuple[int | str, ...]) -> list[str]:
    schema: dict[str, Any] = Spec.model_json_schema(by_alias=True)
    node: dict[str, Any] = schema
    for part in location:
        if _is_shape(part):
            continue
        if isinstance(part, int):
            node = node["items"]
        else:
            node = node.get("properties", {}).get(part) or node["additionalProperties"]
        for choice in [node, *node.get("anyOf", [])]:
            if "$ref" in choice:
                node = schema["$defs"][choice["$ref"].rsplit("/", 1)[1]]
    return sorted(node.get("properties", {}))
