"""Which driver a server gets: facts and a wish in, a plan or a refusal out; changes nothing."""

from gpuferry.driver.decision import Plan
from gpuferry.driver.facts import Facts
from gpuferry.driver.plan import plan_driver
from gpuferry.driver.wish import Wish

__all__ = ["Facts", "Plan", "Wish", "plan_driver"]
