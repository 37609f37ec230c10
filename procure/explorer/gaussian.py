"""A Gaussian process that smooths waits between nearby packages, and says where it does not know."""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

_LENGTHS = (0.35, 0.7, 1.4)
_NOISES = (1e-3, 1e-2)
_JITTER = 1e-6
_CHUNK = 2048


class GaussianProcess:
    """Interpolate values by a Matérn 5/2 kernel over standardised features (Rasmussen and Williams 2006, algorithm
    2.1).

    Length scale and noise are those of a small grid under which the values are likeliest; features that do not vary
    among the rows learnt from are left out.
    """

    def fit(self, x: np.ndarray, y: np.ndarray) -> GaussianProcess:
        """Learn from x, shape (rows, features), and y, shape (rows,)."""
        spread = x.std(axis=0)
        self._use = spread > 1e-9
        self._mean, self._spread = x.mean(axis=0)[self._use], spread[self._use]
        self._x = self._scaled(x)
        self._level, self._scale = float(y.mean()), float(y.std()) or 1.0
        values = (y - self._level) / self._scale
        squared, likeliest = _squared(self._x, self._x), -np.inf
        for length in np.sqrt(max(1, x.shape[1])) * np.asarray(_LENGTHS):
            for noise in _NOISES:
                try:
                    root = cho_factor(_matern(squared, length) + noise * np.eye(len(y)), lower=True)
                except LinAlgError:
                    continue
                weights = cho_solve(root, values)
                variance = max(float(values @ weights) / len(y), 1e-12)
                log_likelihood = -0.5 * len(y) * np.log(variance) - np.log(np.diag(root[0])).sum()
                if log_likelihood > likeliest:
                    likeliest, self._length, self._variance = log_likelihood, length, variance
                    self._root, self._weights = root, weights
        return self

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Return the expected values, float64, shape (rows,); single precision is enough to rank them."""
        found = np.empty(len(x))
        known, weights = self._x.astype(np.float32), self._weights.astype(np.float32)
        for start in range(0, len(x), _CHUNK):
            rows = slice(start, start + _CHUNK)
            z = self._scaled(x[rows]).astype(np.float32)
            found[rows] = _matern(_squared(z, known), self._length) @ weights
        return found * self._scale + self._level

    def draw(self, x: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw n functions that agree with what was learnt, at x: float64, shape (rows, n)."""
        z = self._scaled(x)
        across = _matern(_squared(z, self._x), self._length)
        left = _matern(_squared(z, z), self._length) - across @ cho_solve(self._root, across.T)
        left[np.diag_indices(len(z))] += _JITTER
        drawn = np.sqrt(self._variance) * (_root(left) @ rng.standard_normal((len(z), n)))
        return np.asarray(((across @ self._weights)[:, None] + drawn) * self._scale + self._level)

    def _scaled(self, x: np.ndarray) -> np.ndarray:
        return np.asarray((x[:, self._use] - self._mean) / self._spread)


def _squared(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return squared distances, shape (rows of a, rows of b)."""
    found = a @ (-2 * b.T)
    found += (a**2).sum(axis=1)[:, None]
    found += (b**2).sum(axis=1)[None]
    return np.asarray(np.maximum(found, 0, out=found))


def _matern(squared: np.ndarray, length: float) -> np.ndarray:
    r = np.sqrt(squared)
    r *= squared.dtype.type(np.sqrt(5) / length)
    falls = np.exp(-r)
    falls *= 1 + r * (1 + r / 3)
    return np.asarray(falls)


def _root(matrix: np.ndarray) -> np.ndarray:
    """Return R with R Rᵀ = matrix, rounding errors aside."""
    try:
        return np.asarray(np.linalg.cholesky(matrix))
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(matrix)
        return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))
