"""Slow, obvious versions of the maths, in NumPy float64, written from the formulas alone."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def root(matrix: Array, power: float, *, rtol: float = 1e-6) -> Array:
    values, vectors = np.linalg.eigh(matrix)
    values = np.maximum(values, rtol * values.max())
    return np.asarray(vectors @ np.diag(values**power) @ vectors.T)


def moments(samples: Array) -> tuple[Array, Array]:
    """Mean and population covariance of rows."""
    mean = samples.mean(0)
    return mean, (samples - mean).T @ (samples - mean) / len(samples)


def match(test: Array, train: Array) -> Array:
    """The paper's formula on rows: (X − μ_test) Σ_test^{-1/2} Σ_train^{1/2} + μ_train."""
    (test_mean, test_cov), (train_mean, train_cov) = moments(test), moments(train)
    return np.asarray((test - test_mean) @ root(test_cov, -0.5) @ root(train_cov, 0.5) + train_mean)


def spatial_kronecker(test: Array, train: Array) -> Array:
    """Images (n, c, h, w), channel by channel: rows, then columns of the result, as the authors' code does."""
    out = test.copy()
    for c in range(test.shape[1]):
        for axis in (1, 2):
            moving, still = np.moveaxis(out[:, c], axis, -1), np.moveaxis(train[:, c], axis, -1)
            size = moving.shape[-1]
            matched = match(moving.reshape(-1, size), still.reshape(-1, size)).reshape(moving.shape)
            out[:, c] = np.moveaxis(matched, -1, axis)
    return out


def kronecker(test: Array, train: Array) -> Array:
    """Images (n, c, h, w), channel by channel, with the HW × HW matrix of the paper's equation written out."""
    out = np.empty_like(test)
    for c in range(test.shape[1]):
        colour, mean = _dense_factors(train[:, c], 0.5)
        whiten, test_mean = _dense_factors(test[:, c], -0.5)
        flat = (test[:, c] - test_mean).reshape(len(test), -1)
        out[:, c] = (flat @ whiten @ colour).reshape(test[:, c].shape) + mean
    return out


def _dense_factors(x: Array, power: float) -> tuple[Array, Array]:
    mean = x.mean(0)
    centred = x - mean
    rows = sum(image @ image.T for image in centred) / (len(x) * x.shape[2])
    cols = sum(image.T @ image for image in centred) / (len(x) * x.shape[1])
    scale = np.trace(rows) / len(rows)
    return np.asarray(np.kron(root(rows, power), root(cols / scale, power)), np.float64), np.asarray(mean)
