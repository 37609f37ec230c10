"""A Gaussian process that smooths waits between nearby packages, and says where it does not know."""

from __future__ import annotations

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Matern

_LENGTHS = (0.35, 0.7, 1.4)
_NOISES = (1e-3, 1e-2)
_JITTER = 1e-6
_CHUNK = 4096


class GaussianProcess:
    """Interpolate values by scikit-learn's process with a Matérn 5/2 kernel over standardised features.

    Length scale and noise are those of a small grid under which the values are likeliest; features
    that do not vary among the rows learnt from are left out.
    """

    def fit(self, x: np.ndarray, y: np.ndarray) -> GaussianProcess:
        """Learn from x, shape (rows, features), and y, shape (rows,)."""
        spread = x.std(axis=0)
        self._use = spread > 1e-9
        self._mean, self._spread = x.mean(axis=0)[self._use], spread[self._use]
        z, root, self._jitter = self._scaled(x), np.sqrt(max(1, x.shape[1])), _JITTER * float(y.var() or 1.0)
        tried = [
            GaussianProcessRegressor(Matern(root * length, nu=2.5), alpha=noise, optimizer=None, normalize_y=True)
            for length in _LENGTHS
            for noise in _NOISES
        ]
        self._model = max((one.fit(z, y) for one in tried), key=lambda one: one.log_marginal_likelihood_value_)
        return self

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Return the expected values, float64, shape (rows,)."""
        z = self._scaled(x)
        parts = [self._model.predict(z[start : start + _CHUNK]) for start in range(0, len(z), _CHUNK)]
        return np.concatenate([np.empty(0), *parts])

    def draw(self, x: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw n functions that agree with what was learnt, at x: float64, shape (rows, n)."""
        mean, covariance = self._model.predict(self._scaled(x), return_cov=True)
        covariance[np.diag_indices(len(x))] += self._jitter
        return rng.multivariate_normal(mean, covariance, n, check_valid="ignore", method="cholesky").T

    def _scaled(self, x: np.ndarray) -> np.ndarray:
        return np.asarray((x[:, self._use] - self._mean) / self._spread)
