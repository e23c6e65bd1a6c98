"""Judging servers: runs `checks/` against them and gives verdicts."""

from gpuferry.checking.run import run_checks

__all__ = ["run_checks"]
