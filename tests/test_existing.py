"""The existing system: read from Slurm or a node table, kept or retired."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from procure.errors import TableError
from procure.study import load_plan, load_study
from procure.study.existing import parse_nodes, read_existing, summarise_nodes

LINE = "NodeName={} CPUTot=8 Gres={} RealMemory=16000 State={} OS=Linux 6.1 #1 SMP Reason=a b=c [root@x]"
STATES = ["IDLE", "ALLOCATED", "MIXED+PLANNED", "IDLE+DRAIN", "DOWN*", "DOWN+NOT_RESPONDING", "IDLE*", "FAIL"]
AWAY = {"IDLE+DRAIN", "DOWN*", "DOWN+NOT_RESPONDING", "IDLE*", "FAIL"}


def lines(*nodes: tuple[str, str, str]) -> str:
    return "\n".join(LINE.format(*node) for node in nodes) + "\n"


def saved(folder, text: str):
    path = folder / "nodes.txt"
    path.write_text(text)
    return path


words = st.text("abcxyz09-_", min_size=1, max_size=6)
texts = st.text(st.characters(exclude_characters="=\n\r", exclude_categories=["C", "Z"]), max_size=8)
node = st.fixed_dictionaries(
    {
        "cpus": st.integers(1, 512), "mem": st.integers(1, 10**7), "state": st.sampled_from(STATES),
        "gpus": st.lists(st.tuples(st.none() | st.sampled_from(["a100", "t4"]), st.integers(1, 16)), max_size=3),
        "sockets": st.sampled_from(["", "(S:0-1)", "(S:0,2-3)"]), "effective": st.booleans(),
        "spec": st.integers(0, 100), "noise": st.lists(texts, max_size=3), "split": st.booleans(),
    }
)  # fmt: skip


def spell(name: str, node: dict) -> str:
    """Write a node as scontrol does, on one line or on several."""
    gres = [f"gpu:{f'{model}:' if model else ''}{n}{node['sockets']}" for model, n in node["gpus"]]
    spec = min(node["spec"], node["mem"])
    fields = [
        f"NodeName={name}", "Arch=x86_64", f"CPUTot={node['cpus']}",
        f"Gres={','.join(['mps:100', *gres]) if gres else '(null)'}", f"OS={' '.join(node['noise'])}",
        f"RealMemory={node['mem']}", f"MemSpecLimit={spec}", f"State={node['state']}",
        f"Reason={' '.join(node['noise'])} State=IDLE",
    ]  # fmt: skip
    if node["effective"]:
        fields[2] = f"CPUEfctv={node['cpus']} CPUTot={node['cpus'] + 2}"
    return ("\n   " if node["split"] else " ").join(fields)


@settings(max_examples=30, deadline=None)
@given(st.dictionaries(words, node, min_size=1, max_size=5))
def test_any_node_that_slurm_writes_is_read_back(nodes: dict[str, dict]) -> None:
    """CPUs, memory less what is set aside, GPUs, one model or none, and the first State are read."""
    table = parse_nodes("\n".join(spell(name, each) for name, each in nodes.items()))
    assert table["node_id"].tolist() == list(nodes)
    for row, each in zip(table.to_dict(orient="records"), nodes.values(), strict=True):
        models = {model for model, _ in each["gpus"]}
        assert row["cpus"] == each["cpus"]
        assert row["mem_mb"] == each["mem"] - min(each["spec"], each["mem"])
        assert row["gpus"] == sum(n for _, n in each["gpus"])
        several = " + ".join(f"{sum(n for one, n in each['gpus'] if one == m)}x {m}" for m in dict(each["gpus"]))
        one = models.pop() if len(models) == 1 else ""
        assert row["gpu_type"] == (several if len(models) > 1 and all(models) else one or "")
        assert row["state"] == each["state"]


def test_real_nodes(shared_data) -> None:
    """A real Slurm 22.05 prints three nodes of 8 CPUs and two with four GPUs of a model."""
    system = read_existing(shared_data("slurm_22_05/scontrol-show-node.txt"))
    assert summarise_nodes(system)["n_nodes"].tolist() == [3, 2]
    assert system.nodes["gpu_type"].tolist() == ["", "", "", "fake", "fake"]
    assert (system.nodes["mem_mb"] == 16000).all() and system.listed["available"].all()


def test_unavailable_nodes_are_said_and_kept_or_left_out(tmp_path) -> None:
    """Down, drained and failing nodes are named; they stay unless asked otherwise; FUTURE ones never."""
    nodes = [(f"n{i}", "(null)", state) for i, state in enumerate(STATES)]
    path = saved(tmp_path, lines(*nodes, ("later", "(null)", "FUTURE")))
    kept, left = read_existing(path), read_existing(path, unavailable="leave-out")
    assert len(kept.nodes) == len(STATES) and "5 of 8 nodes are down" in kept.notes[0]
    assert set(left.nodes["node_id"]) == {name for name, _, state in nodes if state not in AWAY}
    assert "left out: n3, n4" in left.notes[0]


def test_retire_by_host_list_and_kind(tmp_path) -> None:
    """Host lists and kinds take nodes away, each is said; what is not there is an error with the nearest."""
    path = saved(tmp_path, lines(*[(f"n{i:02d}", "gpu:2" if i < 2 else "(null)", "IDLE") for i in range(6)]))
    system = read_existing(path, ["n[03-04]", "8c-16g-2xgpu"])
    assert system.nodes["node_id"].tolist() == ["n02", "n05"]
    assert "4 of 6 nodes are retired: n00, n01, n03, n04" in system.notes[0]
    assert summarise_nodes(system)[["n_nodes", "n_staying"]].to_numpy().tolist() == [[2, 0], [4, 2]]
    with pytest.raises(TableError, match=r"no node or kind 'n06'; did you mean n0"):
        read_existing(path, ["n[05-06]"])
    with pytest.raises(TableError, match=r"'n\[03-01\]' names no node"):
        read_existing(path, ["n[03-01]"])
    nothing = read_existing(path, ["n[00-05]"])
    assert len(nothing.nodes) == 0 and "no node stays" in nothing.notes[-1]


def test_gpus_without_a_model_are_said(tmp_path) -> None:
    """A node with two models has a pool of each; one that names no model for some has GPUs of any model."""
    nodes = lines(("g", "gpu:a100:2(S:0,1),gpu:t4:1", "IDLE"), ("h", "gpu:a100:2,gpu:1", "IDLE"))
    system = read_existing(saved(tmp_path, nodes))
    assert system.nodes["gpu_type"].tolist() == ["2x a100 + 1x t4", ""]
    assert "GPUs without a model in h:" in system.notes[0]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (lines(("a", "gpu:many", "IDLE")), r"node 1 \(a\): Gres=gpu:many is unreadable"),
        (lines(("a", "(null)", "IDLE")).replace("RealMemory=16000", ""), r"node 1 \(a\): RealMemory= was"),
        (lines(("a", "(null)", "IDLE")).replace("16000", "16G"), r"node 1 \(a\): RealMemory=16G was"),
        (lines(("a", "(null)", "IDLE"), ("a", "(null)", "IDLE")), "duplicate 'a', also in row 1"),
        (lines(("a", "(null)", "FUTURE")), "holds no node"),
    ],
)
def test_bad_text_is_one_error(tmp_path, text: str, says: str) -> None:
    with pytest.raises(TableError, match=says):
        read_existing(saved(tmp_path, text))


def test_a_study_adds_the_nodes_that_stay(tmp_path) -> None:
    """A study whose existing nodes are Slurm's text simulates with those that are not retired."""
    saved(tmp_path, lines(("n1", "(null)", "IDLE"), ("n2", "(null)", "DOWN")))
    (tmp_path / "q.csv").write_text("name,category,cpus,mem_gb,gpus,price_usd\nq,c,8,64,0,10\n")
    text = """quotes = "q.csv"
    packages = {{ budget_usd = 20, min_gpu_nodes = 0, existing_nodes = "nodes.txt", {} }}
    workloads = [ {{ name = "d", generate = {{ n_jobs = 9 }} }} ]"""
    path = tmp_path / "s.toml"
    path.write_text(text.format('existing_down = "leave-out"'))
    assert load_study(path).read_existing_nodes()["node_id"].tolist() == ["n1"]
    path.write_text(text.format('retire = ["n[1-2]"]'))
    assert load_study(path).read_existing_nodes() is None
    path.write_text(text.format('retire = ["n1"]').replace('existing_nodes = "nodes.txt", ', ""))
    with pytest.raises(TableError, match="retire needs existing_nodes"):
        load_study(path)


def test_watts_of_existing_nodes_do_not_change_a_plan(tmp_path) -> None:
    """They concern costs only; the results of a sweep stay its own."""
    (tmp_path / "q.csv").write_text("name,category,cpus,mem_gb,gpus,price_usd\nq,c,8,64,0,10\n")
    (tmp_path / "s.toml").write_text(
        """quotes = "q.csv"
    packages = { budget_usd = 20, min_gpu_nodes = 0, existing_nodes = "nodes.csv", retire = ["old"] }
    workloads = [ { name = "d", generate = { n_jobs = 9 } } ]"""
    )
    plans = []
    for head, watts in (("", ""), (",power_w", ",500")):
        text = f"node_id,kind,cpus,mem_mb{head}\na,big,128,9000000{watts}\nb,old,8,1000{watts}\n"
        (tmp_path / "nodes.csv").write_text(text)
        plans.append(load_plan(load_study(tmp_path / "s.toml")))
    assert plans[1].existing["power_w"].tolist() == [500] and plans[0].fingerprint == plans[1].fingerprint
