"""Texts that somebody else wrote, made fit for a terminal. Pure."""

from __future__ import annotations

from typing import Any


def harmless(text: str) -> str:
    """Show what would move the cursor, recolour or retitle a terminal, instead of sending it.

    Tabs and newlines stay.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\t\n" else repr(c)[1:-1] for c in text)


def all_harmless(document: Any) -> Any:
    """The same for every text in a document of JSON, keys included."""
    if isinstance(document, str):
        return harmless(document)
    if isinstance(document, list):
        return [all_harmless(part) for part in document]
    if isinstance(document, dict):
        return {all_harmless(key): all_harmless(part) for key, part in document.items()}
    return document
