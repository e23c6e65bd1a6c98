"""Whether an offer's region lies where data has to stay."""

from __future__ import annotations

import functools
import re

# ISO 3166 codes of the European Union's members; the EEA adds Iceland, Liechtenstein and Norway.
_EU = {
    "AT", "BE", "BG", "CY", "CZ", "DE", "DK", "EE", "ES", "FI", "FR", "GR", "HR", "HU", "IE", "IT",
    "LT", "LU", "LV", "MT", "NL", "PL", "PT", "RO", "SE", "SI", "SK",
}  # fmt: skip
_UNIONS = {"EU": _EU | {"EUROPE"}, "EEA": _EU | {"IS", "LI", "NO", "EU", "EUROPE"}}


@functools.cache
def inside(wanted: str, region: str) -> bool:
    """`wanted` as in data_residency (EU, DE, or a list of such), `region` as a seller writes it."""
    words = set(re.findall(r"[A-Z]+", region.upper()))
    for place in re.findall(r"[A-Z]+", wanted.upper()):
        if place in words or words & _UNIONS.get(place, set()):
            return True
    return False
