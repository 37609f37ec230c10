"""Slow twin of the package table: the rules as they are written down, sharing no code with the product."""

from __future__ import annotations

import itertools

import numpy as np


def allowed_counts(row, rule, bound):
    """Spell out the counts above zero of one type; the least one even where no budget affords it.

    A type too dear for the budget is still one that could be chosen.
    """
    low = row["min_count"] if rule.get("min_count") is None else rule["min_count"]
    high = row["max_count"] if rule.get("max_count") is None else rule["max_count"]
    low, pack = low or 1, row["pack_size"] or 1
    most = max(bound, -(-low // pack) * pack)
    return [c for c in range(low, most + 1) if c <= (most if high is None else high) and c % pack == 0]


def charged_cents(counts, rows, discounts):
    """Return what the vendors charge, by the words of the reference page, in whole cents."""
    each = np.array([round(row["price_usd"] * 100) for row in rows])
    total = counts @ each
    by_scope = {}
    for discount in discounts:
        scope = tuple(discount.get(key) for key in ("vendor", "lot", "category", "type"))
        by_scope.setdefault(scope, []).append(discount)
    for scope, tiers in by_scope.items():
        own = np.array(
            [
                all(
                    want in (None, row[key])
                    for want, key in zip(scope, ("vendor", "lot", "category", "name"), strict=True)
                )
                for row in rows
            ]
        )
        nodes, listed = counts @ own, counts @ (own * each)
        best = np.zeros(len(counts), dtype=np.int64)
        for tier in tiers:
            reached = (nodes >= tier.get("from_count", 1)) & (listed >= round(100 * tier.get("from_usd", 0)))
            if tier.get("price_usd") is not None:
                off = listed - nodes * round(tier["price_usd"] * 100)
            else:
                off = listed * round(tier["percent"] * 100) // 10_000
            best = np.maximum(best, np.where(reached, off, 0))
        total = total - best
    return total


def largest_choices(rows, offered, rules):
    """Return every legal set of types to which no further one can be added."""
    m = rules["types_per_category"]

    def legal(chosen):
        for category in {row["category"] for row in rows}:
            if m != "any" and sum(rows[i]["category"] == category for i in chosen) > m:
                return False
        for lot in {row["lot"] for row in rows} - {""}:
            if rules["one_vendor_per_lot"] and len({rows[i]["vendor"] for i in chosen if rows[i]["lot"] == lot}) > 1:
                return False
        return True

    must = {i for i, row in enumerate(rows) if row["mandatory"]}
    sets = [
        frozenset(chosen)
        for n in range(len(offered) + 1)
        for chosen in itertools.combinations(offered, n)
        if legal(chosen) and must <= set(chosen)
    ]
    return [chosen for chosen in sets if not any(chosen < other for other in sets)]


def packages(rows, rules, bound):
    """List (types, counts over all types) of every package, by trying everything.

    ``bound`` is more nodes of a type than any budget affords. The sets of types come in lexicographic
    order of their categories' types, counts with the last type's changing slowest.
    """
    allowed = {i: allowed_counts(row, rules["types"].get(row["name"], {}), bound) for i, row in enumerate(rows)}
    offered = [i for i in allowed if allowed[i]]
    categories = list(dict.fromkeys(row["category"] for row in rows))
    place = {i: (categories.index(rows[i]["category"]), i) for i in offered}
    found = []
    for chosen in sorted(
        (sorted(each, key=place.get) for each in largest_choices(rows, offered, rules)),
        key=lambda each: [place[i] for i in each],
    ):
        if not chosen:
            continue
        options = [allowed[i] if rows[i]["mandatory"] else [0, *allowed[i]] for i in chosen]
        grid = np.array(list(itertools.product(*reversed(options))), dtype=np.int64)[:, ::-1]
        counts = np.zeros((len(grid), len(rows)), dtype=np.int64)
        counts[:, chosen] = grid
        counts = counts[fits(counts, rows, rules)]
        if rules["maximal"]:
            counts = counts[[not further(vector, counts) for vector in counts]]
        found += [(tuple(chosen), tuple(vector)) for vector in counts.tolist()]
    return found


def further(vector, counts):
    """Tell whether another row has as many nodes of every type, and more of one."""
    return bool(((counts >= vector).all(axis=1) & (counts > vector).any(axis=1)).any())


def fits(counts, rows, rules):
    """Tell which rows obey the least numbers, the budget and the caps."""
    gpu = np.array([row["gpus"] > 0 for row in rows])
    good = counts.any(axis=1) & (counts @ gpu >= rules["min_gpu_nodes"])
    for category, least in rules["categories"].items():
        good &= counts @ np.array([row["category"] == category for row in rows]) >= least
    budget = round(rules["budget_usd"] * 100) - round(rules["fixed_cost_usd"] * 100)
    good &= charged_cents(counts, rows, rules["discounts"]) <= budget
    for cap, column in (("max_power_w", "power_w"), ("max_rack_units", "rack_units")):
        if rules[cap] is not None:
            tenths = np.array([round(row[column] * 10) for row in rows])
            good &= counts @ tenths <= round(rules[cap] * 10)
    return good
