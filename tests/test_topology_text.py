"""The network as Slurm writes it: topology.conf, topology.yaml, `scontrol show topology`, and blocks."""

from __future__ import annotations

import pytest
from policy_cases import node_table

from procure.errors import TableError
from procure.site.network import attach, parse_slurm_topology

# The shape in which Slurm 22.05 prints a tree of three levels: no real names, no real addresses.
SHOW_TOPOLOGY = """\
SwitchName=s0 Level=0 LinkSpeed=1 Nodes=c[1-2]
SwitchName=s1 Level=0 LinkSpeed=1 Nodes=c[3-4]
SwitchName=s2 Level=0 LinkSpeed=1 Nodes=c5,g1
SwitchName=s3 Level=0 LinkSpeed=1 Nodes=c[07-08]
SwitchName=p0 Level=1 LinkSpeed=1 Nodes=c[1-4] Switches=s[0-1]
SwitchName=p1 Level=1 LinkSpeed=1 Nodes=c[07-08,5],g1 Switches=s[2-3]
SwitchName=top Level=2 LinkSpeed=1 Nodes=c[1-4,07-08,5],g1 Switches=p[0-1]
"""
TOPOLOGY_CONF = """\
# two pods of two leaf switches
switchname=top Switches=p[0-1]   # lines may come in any order
SwitchName=p0 Switches=s[0-1]
SwitchName=p1 Switches=s2,s3
SwitchName=s0 Nodes=c[1-2]
SwitchName=s1 Nodes=c[3-4] LinkSpeed=100
SwitchName=s2 Nodes=c5,g1

SwitchName=s3 Nodes=c[07-08]
"""


TOPOLOGY_YAML = """\
- topology: other
  tree: {switches: [{switch: s9, nodes: "x[1-2]"}]}
- topology: main
  cluster_default: true
  tree:
    switches:
      - {switch: top, children: "p[0-1]"}
      - {switch: p0, children: "s[0-1]"}
      - {switch: p1, children: "s2,s3"}
      - {switch: s0, nodes: "c[1-2]"}
      - {switch: s1, nodes: "c[3-4]"}
      - {switch: s2, nodes: "c5,g1"}
      - {switch: s3, nodes: "c[07-08]"}
"""


@pytest.mark.parametrize("text", [SHOW_TOPOLOGY, TOPOLOGY_CONF, TOPOLOGY_YAML])
def test_slurm_text_gives_the_tree(text):
    """All three ways to write a tree give it; of several topologies of a file, the cluster's default is read."""
    network = parse_slurm_topology(text)
    assert network.n_levels == 3
    places = network.nodes.set_index("node_id")[["leaf", "pod"]].apply(tuple, axis=1).to_dict()
    assert places == {
        **{"c1": (0, 0), "c2": (0, 0), "c3": (1, 0), "c4": (1, 0)},
        **{"c5": (2, 1), "g1": (2, 1), "c07": (3, 1), "c08": (3, 1)},
    }


def test_two_levels_are_one_pod():
    under_one = parse_slurm_topology("SwitchName=a Nodes=n1\nSwitchName=b Nodes=n2\nSwitchName=t Switches=a,b\n")
    under_none = parse_slurm_topology("SwitchName=a Nodes=n1\nSwitchName=b Nodes=n2\n")
    for network in (under_one, under_none):
        assert network.nodes["leaf"].tolist() == [0, 1]
        assert network.nodes["pod"].tolist() == [0, 0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SwitchName=a Nodes=c[1-3\n", "line 1: host list 'c[1-3' cannot be read; no ] closes"),
        ("SwitchName=a Nodes=c[3-1]\n", "range 3-1, which runs backwards"),
        ("SwitchName=a Nodes=c[1-9999999]\n", "more than 1,000,000 nodes"),
        ("SwitchName=a Nodes=c]\n", "cannot be read"),
        ("SwitchName=a nodes\n", "'nodes' was given"),
        ("SwitchName=a\n", "a line needs SwitchName= and Nodes= or Switches="),
        ("SwitchName=a Nodes=c1\nSwitchName=a Nodes=c2\n", "line 2: switch a stands already"),
        ("SwitchName=a Nodes=c1\nSwitchName=b Nodes=c1\n", "node c1 stands under a and under b"),
        ("SwitchName=a Nodes=c1\nSwitchName=t Switches=a,x\n", "t lists x, which is not defined"),
        ("SwitchName=a Nodes=c1\nSwitchName=t Switches=a\nSwitchName=u Switches=a\n", "a stands under t and"),
        ("SwitchName=t Switches=u\nSwitchName=u Switches=t\nSwitchName=a Nodes=c1\n", "stands under itself"),
        ("# nothing\n", "no leaf switch"),
        (
            "SwitchName=a Nodes=c1\nSwitchName=b Nodes=c2\nSwitchName=t Switches=a\nSwitchName=u Switches=t,b\n",
            "different levels",
        ),
        ("TopologyParam=Dragonfly\nSwitchName=a Nodes=c1\n", "Dragonfly is no fat-tree; trees and blocks"),
        ("- topology: t\n  torus3d: {}\n", "torus3d is no fat-tree"),
        ("- topology: t\n  flat: true\n", "has flat; a tree or blocks are needed"),
        ("- topology: t\n  tree: {switches: 3}\n", "tree needs a list of switches"),
        ("topology: [\n", "cannot be read as YAML"),
    ],
)
def test_bad_network_is_one_error(text, message):
    """A text that is no tree is refused with the line or the switch."""
    with pytest.raises(TableError, match=message.replace("[", r"\[").replace("]", r"\]")):
        parse_slurm_topology(text, "net")


@pytest.mark.parametrize(
    "text",
    [
        "BlockName=b1 Nodes=n[1-2]\nBlockName=b2 Nodes=n[3-4]\nBlockName=b3 Nodes=n5\nBlockSizes=2,4\n",
        "- topology: t\n  block:\n    block_sizes: [2, 4]\n    blocks:\n      - {block: b1, nodes: 'n[1-2]'}\n"
        "      - {block: b2, nodes: 'n[3-4]'}\n      - {block: b3, nodes: n5}\n",
        "BlockName=b1 BlockIndex=0 Nodes=n[1-2] BlockSize=2\nBlockName=b2 BlockIndex=1 Nodes=n[3-4] BlockSize=2\n"
        "BlockName=b3 BlockIndex=2 Nodes=n5 BlockSize=2\nAggregatedBlock=b[1-2] BlockIndex=3 Nodes=n[1-4] BlockSize=4\n"
        "AggregatedBlock=b3 BlockIndex=4 Nodes=n5 BlockSize=4\n"
        "AggregatedBlock=b[1-3] BlockIndex=5 Nodes=n[1-5] BlockSize=8\n",
    ],
)
def test_blocks_are_leaves(text):
    """A block is a leaf; the second block size makes pods, however the blocks are written."""
    nodes = parse_slurm_topology(text).nodes
    leaf, pod = {"n1": 0, "n2": 0, "n3": 1, "n4": 1, "n5": 2}, {"n1": 0, "n2": 0, "n3": 0, "n4": 0, "n5": 1}
    assert dict(zip(nodes["node_id"], nodes["leaf"], strict=True)) == leaf
    assert dict(zip(nodes["node_id"], nodes["pod"], strict=True)) == pod


def test_attach_replaces_and_refuses():
    """Leaf and pod come from the network; a node that it does not have is named."""
    network = parse_slurm_topology(TOPOLOGY_CONF)
    nodes = node_table(2, node_id=["g1", "c3"])
    placed = attach(nodes, network)
    assert placed[["leaf", "pod"]].to_numpy().tolist() == [[2, 1], [1, 0]]
    assert "leaf" not in nodes
    with pytest.raises(TableError, match="c9: in the node table, but not in the network"):
        attach(node_table(2, node_id=["g1", "c9"]), network)
