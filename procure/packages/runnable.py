"""Which jobs a package could never start, found exactly from node types and requests, without simulation."""

from __future__ import annotations

import numpy as np
import pandas as pd

from procure.files.gpu_pools import models_of, pool_for, pools_of
from procure.schemas import REQUEST

_CHUNK = 1 << 16


def mem_mb(mem_gb: pd.Series) -> np.ndarray:
    """Return a quote's memory in whole MB (1 GB = 1,000 MB), fractions rounded up."""
    # 256.1 GB are 256,100 MB, though the product of the floats is a little more.
    return np.ceil(np.round(mem_gb.to_numpy(dtype="float64") * 1000, 6)).astype("int64")


def request_shapes(jobs: pd.DataFrame) -> pd.DataFrame:
    """Return the distinct requests of a job table and how many jobs make each, in column ``n_jobs``."""
    return jobs.groupby(REQUEST, sort=False, dropna=False, observed=True).size().rename("n_jobs").reset_index()


def shape_of(jobs: pd.DataFrame, shapes: pd.DataFrame) -> np.ndarray:
    """Return the row in `request_shapes` of each job's request, int64[n_jobs]."""
    numbered = shapes[REQUEST].assign(shape=np.arange(len(shapes)))
    return jobs[REQUEST].merge(numbered, how="left", on=REQUEST)["shape"].to_numpy()


def fits(types: pd.DataFrame, shapes: pd.DataFrame) -> np.ndarray:
    """Say which node type, ``cpus mem_mb gpus gpu_type``, could hold one node's share of which request when empty.

    The bool (types, shapes) is true where CPUs, memory and GPUs suffice and, if the request asks for GPUs and both
    sides name a GPU model, it is one of those that will do. Of a node with several models a request takes the first
    that will do.
    """

    def enough(has: str, asked: str) -> np.ndarray:
        return types[has].to_numpy()[:, None] >= shapes[asked].to_numpy()[None, :]

    has = list(zip(types["gpu_type"].astype(str), types["gpus"].tolist(), strict=True))
    asked = [models_of(str(text)) for text in shapes["gpu_type"]]
    there = {(one, each): _gpus_for(*one, each) for one in set(has) for each in set(asked)}
    gpus = np.array([[there[one, each] for each in asked] for one in has], np.int64).reshape(len(has), len(asked))
    wanted = shapes["gpus_per_node"].to_numpy()[None, :]
    return enough("cpus", "cpus_per_node") & enough("mem_mb", "mem_mb_per_node") & ((gpus >= wanted) | (wanted == 0))


def _gpus_for(text: str, gpus: int, asked: frozenset[str]) -> int:
    """Return how many GPUs of a node a request can take; −1 = none of the models that will do."""
    pools = pools_of(text, gpus)
    place = pool_for(pools, asked)
    return pools[place][1] if place >= 0 else -1


def count_matrix(packages: pd.DataFrame, quotes: pd.DataFrame) -> np.ndarray:
    """Return the int64 counts of each quoted type, shape (packages, types), in quote-file order."""
    names = quotes["name"].tolist()
    return packages.reindex(columns=names, fill_value=0).to_numpy(dtype="int64")


def node_types(quotes: pd.DataFrame) -> pd.DataFrame:
    """Return what `fits` needs of each quoted type; quotes as `procure.packages.quotes.check_quotes` returns them."""
    return pd.DataFrame(
        {
            "cpus": quotes["cpus"].to_numpy(),
            "mem_mb": mem_mb(quotes["mem_gb"]),
            "gpus": quotes["gpus"].to_numpy(),
            "gpu_type": quotes["gpu_type"].to_numpy(),
        }
    )


def jobs_left_out(
    packages: pd.DataFrame,
    quotes: pd.DataFrame,
    jobs: pd.DataFrame,
    existing: pd.DataFrame | None = None,
    weight: np.ndarray | None = None,
) -> np.ndarray:
    """Count the jobs that fit no empty set of a package's nodes, exactly as a simulation would.

    Parameters
    ----------
    packages
        A package table: one count column per quoted type.
    quotes
        The quote table whose types the packages count, as `procure.packages.quotes.check_quotes` returns it.
    jobs
        A job table; a job on several nodes needs that many nodes, each of which holds its share.
    existing
        A node table of servers that every package adds to, if any.
    weight
        What each job counts, whole numbers; default: 1.

    Returns
    -------
    int64 array, shape (packages,)
        Jobs left out, or the sum of their weights; 0 means that the package runs every job.

    Examples
    --------
    >>> import procure
    >>> quotes, jobs = procure.read_quotes("quotes.csv"), procure.generate(seed=1, n_jobs=100)
    >>> packages = procure.expand_packages(quotes, procure.PackageRules(budget_usd=90_000))
    >>> procure.jobs_left_out(packages, quotes, jobs).shape == (len(packages),)
    True
    """
    shapes = request_shapes(jobs)
    able = fits(node_types(quotes), shapes)
    needed, n_jobs = shapes["n_nodes"].to_numpy(), shapes["n_jobs"].to_numpy()
    if weight is not None:
        n_jobs = np.bincount(shape_of(jobs, shapes), weight, len(shapes))
    if existing is not None and len(existing):
        needed = needed - fits(existing, shapes).sum(axis=0)
    # Requests that the same types can hold are one question: a day's 160 shapes become about ten.
    questions, which = np.unique(np.column_stack([able.T, needed]), axis=0, return_inverse=True)
    asking = np.bincount(which.ravel(), weights=n_jobs, minlength=len(questions))
    able_types, asked = questions[:, :-1].T.astype("float64"), questions[:, -1]
    counts = count_matrix(packages, quotes)
    left_out = np.empty(len(counts), dtype="int64")
    for start in range(0, len(counts), _CHUNK):
        rows = slice(start, start + _CHUNK)
        left_out[rows] = (counts[rows].astype("float64") @ able_types < asked) @ asking
    return left_out
