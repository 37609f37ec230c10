"""What this room adds to the catalog."""

from procure.policies.entries import Entry

CLOSEST = Entry(
    "procure.window.policies:Closest",
    "easy, exclusive, on a fat-tree: each job at the start along the idle nodes with the fewest hops",
    True,
    True,
    preset={"place": "closest"},
)
WINDOW = Entry(
    "procure.window.policies:Windows",
    "exclusive, on a fat-tree: jobs wait some seconds and are then placed together with few hops",
    True,
    True,
)
