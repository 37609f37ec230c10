"""What this room adds to the catalog: EASY on its places."""

from procure.policies.entries import Entry


def _easy_on(place: str, which: str) -> Entry:
    summary = f"easy, exclusive, on a fat-tree: {which}"
    return Entry("procure.policies.easy:Easy", summary, True, True, preset={"place": place})


ANY = _easy_on("any", "any idle nodes")
COMPACT = _easy_on("compact", "the fewest switches; links are shared")
TIERS = _easy_on("tiers", "no shared links, by rules for jobs of a leaf, of a pod and of several pods")
ISOLATED = _easy_on("isolated", "no shared links, each job with links of its own")
