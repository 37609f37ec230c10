"""What this room adds to the catalog: EASY, exclusive, on a fat-tree."""

from procure.policies.entries import Entry


def _on_tree(model: str, which: str) -> Entry:
    return Entry(f"procure.topology.policies:{model}", f"easy, exclusive, on a fat-tree: {which}", True, True)


ANY = _on_tree("Any", "any idle nodes")
COMPACT = _on_tree("Compact", "the fewest switches; links are shared")
TIERS = _on_tree("Tiers", "no shared links, by rules for jobs of a leaf, of a pod and of several pods")
ISOLATED = _on_tree("Isolated", "no shared links, each job with links of its own")
