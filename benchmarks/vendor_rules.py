"""Time the package table under vendors' rules, and the costs: `python benchmarks/vendor_rules.py`."""

from __future__ import annotations

import resource
import time
from pathlib import Path

from procure.packages import PackageRules, count_packages, expand_packages, read_quotes
from procure.packages.costs import Costs, total_costs
from procure.workload import generate

ROOT = Path(__file__).resolve().parent.parent
DISCOUNTS = (
    {"category": "compute", "from_count": 40, "percent": 6},
    {"category": "compute", "from_count": 80, "percent": 9},
    {"category": "gpu", "from_usd": 300_000, "percent": 5},
)


def main() -> None:
    quotes = read_quotes(ROOT / "quotes" / "example-2023.csv")
    for name, rules in {
        "published rule, $1,000,000": {"budget_usd": 1_000_000},
        "- with three discounts": {"budget_usd": 1_000_000, "discounts": DISCOUNTS},
        "- $3,000,000 with three discounts": {"budget_usd": 3_000_000, "discounts": DISCOUNTS},
        "two types per category, $250,000": {"budget_usd": 250_000, "types_per_category": 2},
        "any number of types, $60,000": {"budget_usd": 60_000, "types_per_category": "any"},
    }.items():
        began = time.process_time()
        found = count_packages(quotes, PackageRules(rules="published", **rules))
        seconds = time.process_time() - began
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        print(f"{name}: {found['n_packages']:,} packages, {found['n_distinct']:,} distinct, "
              f"{seconds:.2f} s of CPU, {memory:.2f} GB at most so far")  # fmt: skip
    rules = PackageRules(rules="published", budget_usd=1_000_000)
    packages = expand_packages(quotes, rules)
    jobs = {"day": generate(1)}
    began = time.process_time()
    total_costs(packages, quotes, Costs(), jobs, rules)
    print(f"costs of {len(packages):,} packages: {time.process_time() - began:.2f} s of CPU")


if __name__ == "__main__":
    main()
