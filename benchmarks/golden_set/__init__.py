"""The sections of the golden set, one module each; `benchmarks/golden.py` writes and checks them."""

from __future__ import annotations

import importlib

SECTIONS = ("example", "schedules", "slurm", "published", "tables", "features", "commands")
"""Modules; each has ``PARTS``, and where something of it will go ``GOES``."""


def section(name: str):
    """Import a section."""
    return importlib.import_module(f"golden_set.{name}")
