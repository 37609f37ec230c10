"""What may be bought, and what does it cost? Quotes, rules, prices, and every package that they allow."""

from procure.packages.nodes import package_nodes
from procure.packages.quotes import read_quotes
from procure.packages.rules import PackageRules, TypeRule
from procure.packages.space import count_packages, expand_packages, write_packages

__all__ = [
    "PackageRules", "TypeRule", "count_packages", "expand_packages", "package_nodes", "read_quotes",
    "write_packages",
]  # fmt: skip
