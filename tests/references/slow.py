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


def dct(side: int) -> Array:
    """The orthonormal DCT-II, entry by entry."""
    matrix = np.empty((side, side))
    for i in range(side):
        for j in range(side):
            matrix[i, j] = np.sqrt((1 if i == 0 else 2) / side) * np.cos(np.pi * (j + 0.5) * i / side)
    return matrix


def mixed(mean: Array, variance: Array, train_mean: Array, train_variance: Array, weight: float) -> Array:
    """The variance of a mixture: the part `weight` of it is training data."""
    between = weight * (1 - weight) * (mean - train_mean) ** 2
    return np.asarray((1 - weight) * variance + weight * train_variance + between)


def spectrum(test: Array, train: Array, prior_moments: float, prior_shape: float, *, floor: float = 1e-4) -> Array:
    """Images (n, c, h, w), channel by channel: channel moments first, then the variance of every DCT coefficient."""
    out, rows, cols = np.empty_like(test), dct(test.shape[2]), dct(test.shape[3])
    for c in range(test.shape[1]):
        weight = 1.0 if np.isinf(prior_moments) else prior_moments / (prior_moments + len(test))
        mean = (1 - weight) * test[:, c].mean() + weight * train[:, c].mean()
        variance = mixed(test[:, c].mean(), test[:, c].var(), train[:, c].mean(), train[:, c].var(), weight)
        moved = (test[:, c] - mean) * np.sqrt(train[:, c].var() / variance) + train[:, c].mean()
        z, z_train = (np.stack([rows @ image @ cols.T for image in x]) for x in (moved, train[:, c]))
        means = 1.0 if np.isinf(prior_shape) else 4 * prior_shape / (4 * prior_shape + len(test))
        weight = 1.0 if np.isinf(prior_shape) else prior_shape / (prior_shape + len(test))
        mean = (1 - means) * z.mean(0) + means * z_train.mean(0)
        variance = mixed(z.mean(0), z.var(0), z_train.mean(0), z_train.var(0), weight)
        least = floor * z_train.var(0).mean()
        z = np.sqrt((z_train.var(0) + least) / (variance + least)) * (z - mean) + z_train.mean(0)
        out[:, c] = np.stack([rows.T @ image @ cols for image in z])
    return out


def authors_matching(test: Array, train: Array, *, jitter: float, floor: float) -> Array:
    """Rows, then columns of the result, with the authors' jitter and floors: fact sheet, 1.2 and 1.3."""
    out = test.copy()
    for c in range(test.shape[1]):
        for axis in (1, 2):
            moving, still = np.moveaxis(out[:, c], axis, -1), np.moveaxis(train[:, c], axis, -1)
            (mean, cov), (train_mean, train_cov) = (moments(x.reshape(-1, x.shape[-1])) for x in (moving, still))
            cov = cov + jitter * np.diag(np.diag(cov))
            values, vectors = np.linalg.eigh(cov)
            whiten = vectors @ np.diag(np.maximum(values, floor) ** -0.5) @ vectors.T
            values, vectors = np.linalg.eigh(train_cov)
            colour = vectors @ np.diag(np.maximum(values, 1e-8) ** 0.5) @ vectors.T
            out[:, c] = np.moveaxis((moving - mean) @ whiten @ colour + train_mean, -1, axis)
    return out


def convolved(x: Array, kernel: Array) -> Array:
    """A convolution without padding, window by window."""
    side = x.shape[2] - kernel.shape[2] + 1
    out = np.empty((len(x), len(kernel), side, side))
    for i in range(side):
        for j in range(side):
            window = x[:, :, i : i + kernel.shape[2], j : j + kernel.shape[3]]
            out[:, :, i, j] = np.einsum("bcij,ocij->bo", window, kernel)
    return out


def batch_normalised(x: Array, *, eps: float = 1e-5) -> Array:
    """Batchnorm on the statistics of the batch, without an affine part."""
    mean, variance = x.mean((0, 2, 3), keepdims=True), x.var((0, 2, 3), keepdims=True)
    return np.asarray((x - mean) / np.sqrt(variance + eps))
