"""The compiled loop behind `procure.explanation.bottleneck`: each waiting request is held against every node."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from procure.files.kernels import njit

N_CAUSES = 5
GPU_TYPE, POLICY = 3, 4
"""Columns of the causes; before these, CPUs, memory and GPUs."""


class Requests(NamedTuple):
    """Requests that jobs share, in rows."""

    asked: np.ndarray  # float64[requests, 3], CPUs, MB, GPUs per node
    needed: np.ndarray  # int64[requests], nodes
    able: np.ndarray  # bool[requests, nodes], which nodes could hold it when empty
    any_type: np.ndarray  # bool[requests, nodes], the same whatever their GPU type


class Changes(NamedTuple):
    """What happens when."""

    moments: np.ndarray  # int64[moments], Unix s, ascending
    comes: np.ndarray  # int64[jobs, 2], moment and request of each job that begins to wait, by moment
    goes: np.ndarray  # int64[jobs, 2], the same of each that starts
    taken: np.ndarray  # float64[changes, 5], moment, node, and CPUs, MB, GPUs taken there (given back: negative)


@njit(cache=True, error_model="numpy")
def book(changes, totals, requests, seconds, by_shape):
    """Walk through all moments and book what each waiting request lacks until the next.

    ``totals`` are float64[nodes, 3]; waiting job-seconds are added to ``seconds``, float64[moments, causes], and
    ``by_shape``, float64[requests, causes]. Returns those in which enough was free in total, but on no single node.
    """
    moments, comes, goes, taken = changes
    asked = requests.asked
    free, waiting = totals.copy(), np.zeros(len(asked))
    parts, seen = np.zeros((len(asked), N_CAUSES)), np.full(len(asked), -1)
    apart = np.zeros(len(asked), np.bool_)
    fragmented, state, came, gone, changed = 0.0, 0, 0, 0, 0
    for at in range(len(moments) - 1):
        while came < len(comes) and comes[came, 0] == at:
            waiting[comes[came, 1]] += 1
            came += 1
        while gone < len(goes) and goes[gone, 0] == at:
            waiting[goes[gone, 1]] -= 1
            gone += 1
        while changed < len(taken) and taken[changed, 0] == at:
            for i in range(3):
                free[int(taken[changed, 1]), i] -= taken[changed, 2 + i]
            changed += 1
            state += 1
        gap = moments[at + 1] - moments[at]
        for shape in range(len(asked)):
            if waiting[shape] == 0:
                continue
            if seen[shape] != state:  # as long as nothing starts or ends, the same is lacking
                seen[shape] = state
                apart[shape] = find_lacked(free, totals, requests, shape, parts[shape])
            weight = waiting[shape] * gap
            for i in range(N_CAUSES):
                seconds[at, i] += parts[shape, i] * weight
                by_shape[shape, i] += parts[shape, i] * weight
            if apart[shape]:
                fragmented += weight
    return fragmented


@njit(cache=True, error_model="numpy")
def find_lacked(free, totals, requests, shape, parts):
    """Apply the rule to one request: fill ``parts``, float64[causes], whose sum is 1; return whether it is
    fragmented.

    ``free`` and ``totals`` are float64[nodes, 3]: CPUs, MB, GPUs; ``shape`` says which of the requests.
    """
    asked, needed = requests.asked[shape], requests.needed[shape]
    able, any_type = requests.able[shape], requests.any_type[shape]
    parts[:] = 0.0
    n_fit, n_typed, nearest, least = 0, 0, 0, np.inf
    in_all = np.zeros(3)
    for node in range(len(free)):
        n_short, missing = 0, 0.0
        for i in range(3):
            if free[node, i] < asked[i]:
                n_short += 1
                missing += (asked[i] - free[node, i]) / max(totals[node, i], 1.0)
            if able[node]:
                in_all[i] += free[node, i]
        if n_short == 0:
            n_fit += able[node]
            n_typed += any_type[node]
        elif able[node]:
            distance = 4.0 * n_short + missing / n_short
            if distance < least:
                nearest, least = node, distance
    if n_fit >= needed:
        parts[POLICY] = 1.0
        return False
    if n_typed >= needed:
        parts[GPU_TYPE] = 1.0
        return False
    n_short = 0
    for i in range(3):
        n_short += free[nearest, i] < asked[i]
    enough = True
    for i in range(3):
        if free[nearest, i] < asked[i]:
            parts[i] = 1.0 / n_short
        enough &= in_all[i] >= asked[i] * needed
    return enough
