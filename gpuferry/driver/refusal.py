"""A refusal: why nothing may be touched, and what the person can do about it."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class Refusal(BaseModel):
    """`reason` is a word for programs; `sentence` and `options` are for people."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    reason: str
    sentence: str
    options: list[str] = Field(default_factory=list)


class Refused(Exception):
    """Carries a refusal out of a decision; never leaves this package."""

    def __init__(self, reason: str, sentence: str, *options: str) -> None:
        super().__init__(sentence)
        self.refusal = Refusal(reason=reason, sentence=sentence, options=list(options))
