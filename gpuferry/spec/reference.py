"""The reference of the stack file, made from the model: `python3 -m gpuferry.spec.reference`."""

from __future__ import annotations

from typing import Any

from gpuferry.spec.load import NAMESPACE
from gpuferry.spec.model import Spec

_HEAD = f"""\
# The stack file

Made from the model by `python3 -m gpuferry.spec.reference`; a test compares.

Every key stands in `Pulumi.<stack>.yaml` below `config:`, with the prefix `{NAMESPACE}:` at the top
level. Unknown keys are refused.
"""


def markdown() -> str:
    """The page: one table for each part of the spec."""
    schema = Spec.model_json_schema(by_alias=True)
    parts = [_HEAD, _table(f"{NAMESPACE}:", schema, schema)]
    for name, part in schema["$defs"].items():
        if "properties" in part:
            parts.append(_table(name, part, schema))
    return "\n".join(parts)


def _table(name: str, part: dict[str, Any], schema: dict[str, Any]) -> str:
    required = part.get("required", [])
    lines = [f"## {name}", "", str(part.get("description", "")), ""]
    lines += ["| key | value | default | |", "|---|---|---|---|"]
    for key, field in part["properties"].items():
        default = "required" if key in required else f"`{_default(field)}`"
        lines.append(
            f"| `{key}` | {_type(field, schema)} | {default} | {field.get('description', '')} |"
        )
    return "\n".join([*lines, ""])


def _default(field: dict[str, Any]) -> str:
    value = field.get("default", "")
    return {None: "none", True: "true", False: "false", "": "empty"}.get(
        value if isinstance(value, str | bool | None) else "x", str(value)
    )


def _type(field: dict[str, Any], schema: dict[str, Any]) -> str:
    if "$ref" in field:
        name = field["$ref"].rsplit("/", 1)[1]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in field:
        kinds = [_type(choice, schema) for choice in field["anyOf"]]
        return " or ".join(kind for kind in kinds if kind != "null")
    if "enum" in field:
        return " or ".join(f"`{value}`" for value in field["enum"])
    if field.get("type") == "array":
        return f"list of {_type(field['items'], schema)}"
    if field.get("type") == "object":
        values = field.get("additionalProperties")
        if isinstance(values, dict) and "$ref" in values:
            return f"mapping of name to {_type(values, schema)}"
        return "mapping"
    limits = [f"{word} {field[key]}" for key, word in _LIMITS.items() if key in field]
    return ", ".join([str(field.get("type", "any")), *limits])


_LIMITS = {"minimum": "at least", "maximum": "at most"}

if __name__ == "__main__":
    print(markdown())
