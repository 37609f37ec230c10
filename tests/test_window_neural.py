"""The network that proposes starts: its file, what it sees, its training, its refusals."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from procure.errors import ArgumentError, TableError
from procure.topology.fat_tree import FatTree, make_nodes
from procure.window.board import line_up, make_board
from procure.window.network import FEATURES, POSITIONS, Network, observe, read_network, write_network
from procure.window.problem import Window
from procure.window.solve import solve
from procure.window.train import make_room, train_network
from procure.workload.studies import generate_jobs

pytestmark = pytest.mark.plain

TREE = FatTree(3, 2, 10)
WINDOW = Window(TREE, np.arange(5, 50), ("a", "b", "c"), [12, 4, 9])


def random_network(seed: int = 1, n_in: int = POSITIONS * FEATURES) -> Network:
    rng = np.random.default_rng(seed)
    sizes = (n_in, 16, POSITIONS)
    weights = tuple(
        (rng.normal(0, 0.1, (a, b)).astype(np.float32), np.zeros(b, np.float32)) for a, b in pairwise(sizes)
    )
    return Network((3, 2, 10), 40, weights, {"seed": seed})


def test_what_the_network_sees():
    """Leaf and pod divided by the highest number, 1 for idle, this job's and the others' nodes over 40; then zeros."""
    board = make_board(FatTree(3, 2, 10).shape, np.array([0, 30, 50, 51]), np.ones(2, int), seed=0)
    board.owner[[0, 2]] = 0
    seen = observe(board, line_up(board), np.array([10, 4, 8]), random_network())
    rows = seen.reshape(POSITIONS, FEATURES)
    assert rows[0] == pytest.approx([3 / 5, 1 / 2, 1, 10 / 40, 6 / 40])
    assert rows[1] == pytest.approx([1, 1, 1, 10 / 40, 6 / 40])
    assert not rows[2:].any()


def test_a_network_places_every_job(tmp_path):
    """A network's file is read again as it was; its search places every job, the same for the same seed."""
    network, path = random_network(), tmp_path / "net.zip"
    write_network(path, network)
    again = read_network(path)
    seen = np.random.default_rng(0).random(POSITIONS * FEATURES).astype(np.float32)
    assert (again.logits(seen) == network.logits(seen)).all()
    assert (again.tree, again.most_nodes, again.training) == (network.tree, 40, {"seed": 1})
    found = solve(WINDOW, f"neural:{path}", steps=30, seed=5)
    held = np.concatenate(found.places)
    assert [len(each) for each in found.places] == [12, 4, 9] and len(np.unique(held)) == 25
    assert found.cost_code <= solve(WINDOW, "seq").cost_code and not found.optimal
    other = solve(WINDOW, f"neural:{path}", steps=30, seed=5)
    assert all((a == b).all() for a, b in zip(other.places, found.places, strict=True))


def test_refusals(tmp_path):
    """Another tree, another input size, layers that do not fit, no such file: one sentence each."""
    path = tmp_path / "net.zip"
    write_network(path, random_network())
    with pytest.raises(TableError, match=r"trained on 3 pods × 2 leaves × 10 nodes, and this is 4 pods"):
        solve(Window(FatTree(4, 2, 10), np.arange(9), ("a",), [3]), f"neural:{path}")
    write_network(path, random_network(n_in=400))
    with pytest.raises(TableError, match="layers do not fit"):
        read_network(path)
    with pytest.raises(TableError, match=r"no such file; `procure\.window\.train\.train_network` writes one"):
        solve(WINDOW, f"neural:{tmp_path / 'none.zip'}")
    for arguments, message in (({"minutes": 0}, "0 minutes"), ({"steps": 0}, "0 steps")):
        with pytest.raises(ArgumentError, match=message):
            train_network(generate_jobs(9, 1), make_nodes(3, 2, 10), **arguments)


def test_the_room_rewards_the_cost_of_what_it_placed():
    """An episode places one or two jobs, largest first, on what is free; the reward is minus their cost, at its end."""
    pytest.importorskip("gymnasium")
    room = make_room([WINDOW], random_network(), 3)
    rng, lengths = np.random.default_rng(0), set()
    for _ in range(50):
        seen, _ = room.reset()
        done, rewards, sizes = False, [], []
        while not done:
            mask = room.action_masks()
            assert mask.sum() == min(room.n_line, POSITIONS) == (seen.reshape(POSITIONS, FEATURES)[:, 2] > 0).sum()
            sizes.append(room.board.sizes[room.removed[room.at]])
            seen, reward, done, _, _ = room.step(int(rng.integers(mask.sum())))
            rewards.append(reward)
        places = [WINDOW.idle[room.board.held[slice(*room.board.first[j : j + 2])]] for j in room.removed]
        assert rewards[:-1] == [0.0] * (len(rewards) - 1) and sizes == sorted(sizes, reverse=True)
        assert rewards[-1] == pytest.approx(-sum(WINDOW.cost(own) for own in places) / 10_000)
        lengths.add(len(rewards))
    assert lengths == {1, 2}


@pytest.mark.slow
def test_training_is_repeatable(tmp_path):
    """A short training ends with a network that solves; seed and number of placements settle its weights."""
    pytest.importorskip("sb3_contrib")
    jobs, nodes = generate_jobs(60, 2), make_nodes(3, 2, 10)
    jobs["n_nodes"] = jobs["n_nodes"].clip(upper=20)
    first, second = (train_network(jobs, nodes, minutes=5, steps=2048, seed=4) for _ in range(2))
    assert all((a[0] == b[0]).all() for a, b in zip(first.weights, second.weights, strict=True))
    assert first.tree == (3, 2, 10) and first.most_nodes == 20 and first.training["placements"] == 2048
    path = tmp_path / "net.zip"
    write_network(path, first)
    assert len(solve(WINDOW, f"neural:{path}", steps=20).places) == 3
