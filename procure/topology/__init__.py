"""Where in the network?

A three-level fat-tree and who holds which of its nodes and links: readers for what a centre has,
allocators that keep jobs off each other's links, EASY backfilling on them, and a verifier of its own.
"""

from procure.page.names import add_names

add_names(
    {
        "aph": "hops",
        "mean_aph": "mean hops",
        "median_aph": "median hops",
        "max_aph": "most hops",
        "ideal_aph": "ideal hops",
    },
)
