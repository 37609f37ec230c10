"""CPU time of a sweep's batched kernel, or of the commands of `make sweep`, in several checkouts, in turn.

``git worktree add ../before dec237e; python benchmarks/kernel_in_turn.py ../before .``; ``--commands 3``: the commands

Each checkout has a process of its own that makes what a sweep of the example study hands to the kernel. Each package
is then run in one checkout after the other, several times, so that a machine that others load is as fast for all.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
COMMANDS = (
    ["--help"],
    ["sweep", "STUDY", "--farm", "serial"],
    ["train", "STUDY"],
    ["evaluate", "STUDY"],
    ["recommend", "STUDY", "-k", "10"],
    ["report", "STUDY"],
)


def serve(study: str) -> None:
    """Make the kernel's arguments by a sweep that stops there; answer each number of a package by CPU seconds."""
    import procure
    from procure.simulator.batch import best_fit_batch
    from procure.sweep import runner

    given: list[tuple] = []
    runner.best_fit_batch = lambda *arguments: given.append(arguments)
    with contextlib.suppress(procure.TableError):  # there are no results
        procure.run_sweep(procure.load_plan(procure.load_study(Path(study))), "serial")

    counts = np.concatenate([arguments[-2] for arguments in given])
    head, out = given[0][:-2], given[0][-1][:1].copy()
    best_fit_batch(*head, counts[:1], out)
    print(len(counts), flush=True)
    for line in sys.stdin:
        at = int(line)
        began = time.process_time()
        best_fit_batch(*head, counts[at : at + 1], out)
        print(json.dumps([time.process_time() - began, float(np.nansum(out))]), flush=True)


def prepare(tree: Path, folder: Path) -> tuple[Path, dict[str, str]]:
    """Write the study into a folder of its own; return it, and the environment in which a checkout is found."""
    text = (ROOT / "pipelines" / "example.toml").read_text(encoding="utf-8")
    text = text.replace('"../results"', json.dumps(str(folder))).replace("sample = 10 ", "sample = 100 ")
    study = folder / "study.toml"
    study.write_text(text.replace('"../quotes/', f'"{ROOT.as_posix()}/quotes/'), encoding="utf-8")
    names = folder / "xgboost-3.0.0.dist-info"  # which earlier versions look up under this name
    names.mkdir()
    (names / "METADATA").write_text("Metadata-Version: 2.1\nName: xgboost\nVersion: 3.0.0\n", encoding="utf-8")
    return study, os.environ | {"PYTHONPATH": os.pathsep.join([str(tree.resolve()), str(folder)])}


def start(tree: Path, folder: Path) -> subprocess.Popen:
    """Start a checkout's process; its results stand in a folder of its own."""
    study, env = prepare(tree, folder)
    command = [sys.executable, str(Path(__file__).resolve()), "--serve", str(study)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, env=env, cwd=folder, text=True)


def time_commands(trees: list[Path], folders: list[Path], times: int) -> None:
    """Run each command in one checkout after the other; print CPU seconds, the first round (which compiles) aside."""
    made = [prepare(tree, folder) for tree, folder in zip(trees, folders, strict=True)]
    took: dict[str, list[list[float]]] = {}
    for _ in range(times + 1):
        for arguments in COMMANDS:
            for n, (study, env) in enumerate(made):
                if arguments[0] == "sweep":
                    shutil.rmtree(study.parent / "example", ignore_errors=True)
                words = [str(study) if word == "STUDY" else word for word in arguments]
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
                run = [Path(sys.executable).with_name("procure"), *words]
                subprocess.run(run, env=env, cwd=study.parent, check=True, capture_output=True)
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                of = took.setdefault(arguments[0], [[] for _ in trees])
                of[n].append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    print(f"{times} times each, CPU seconds, medians; load {os.getloadavg()[0]:.1f}")
    print("| Command |" + "".join(f" {tree} |" for tree in trees) + "\n| --- |" + " ---: |" * len(trees))
    for name, of in took.items():
        print(f"| {name} |" + "".join(f" {np.median(one[1:]):.2f} |" for one in of))


def ask(process: subprocess.Popen, package: int) -> float:
    """Return the CPU seconds of one run."""
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(f"{package}\n")
    process.stdin.flush()
    return float(json.loads(process.stdout.readline())[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trees", nargs="*", type=Path, help="checkouts; the first is what the others are held against")
    parser.add_argument("--every", type=int, default=20, help="every which package of the sample")
    parser.add_argument("--times", type=int, default=9, help="runs of each package in each checkout")
    parser.add_argument("--commands", type=int, metavar="N", help="time the commands instead, N times each")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve(options.serve)
    with tempfile.TemporaryDirectory() as scratch:
        folders = [Path(scratch) / str(n) for n in range(len(options.trees))]
        for folder in folders:
            folder.mkdir()
        if options.commands:
            return time_commands(options.trees, folders, options.commands)
        processes = [start(tree, folder) for tree, folder in zip(options.trees, folders, strict=True)]
        n_packages = min(int(process.stdout.readline()) for process in processes)  # type: ignore[union-attr]
        chosen = range(0, n_packages, options.every)
        took = np.array([[[ask(p, at) for p in processes] for _ in range(options.times)] for at in chosen])
        for process in processes:
            process.communicate()
    median, least = np.median(took, axis=1), took.min(axis=1)  # [package, checkout]
    print(f"{len(chosen)} packages of {n_packages}, {options.times} times each; load {os.getloadavg()[0]:.1f}")
    print("| Checkout | ms a run: medians | least | of the first, medians | least |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for n, tree in enumerate(options.trees):
        part, low = median[:, n].sum() / median[:, 0].sum(), least[:, n].sum() / least[:, 0].sum()
        print(f"| {tree} | {median[:, n].mean() * 1e3:.2f} | {least[:, n].mean() * 1e3:.2f} | {part:.3f} | {low:.3f} |")


if __name__ == "__main__":
    main()
