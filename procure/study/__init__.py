"""What exactly is asked? The study file, and everything that it names read in."""

from procure.study.plan import Plan, load_plan
from procure.study.study import Study, load_study

__all__ = ["Plan", "Study", "load_plan", "load_study"]
