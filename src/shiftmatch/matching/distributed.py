"""Many processes, each with its share of the images: moments add, so all of them get what one process would.

Start them with torchrun, and call `start_processes` once in each.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, distributed

from shiftmatch.core.covariance import Covariance
from shiftmatch.core.moments import BatchMoments, Moments, check_batch
from shiftmatch.core.spectrum import ChannelMoments, Prior, Spectrum, apply
from shiftmatch.core.views import Target
from shiftmatch.errors import InputError, StatisticsMismatchError
from shiftmatch.matching.classes import TINY, ClassMoments
from shiftmatch.matching.statistics import Statistics
from shiftmatch.shapes import Features, Size
from shiftmatch.utils.hashing import content_hash
from shiftmatch.utils.processes import barrier, rank_and_count


def add_over_processes(statistics: Statistics) -> Statistics:
    """The sum of the statistics of all processes, in every process.

    Means are reduced first, then the scatter about the common mean, so that no digits are lost.
    """
    if rank_and_count()[1] == 1:
        return statistics
    barrier()
    _check_alike(statistics)
    found = [m for entry in statistics.values() for part in entry.parts for m in part]
    found += [statistics.fingerprint] if statistics.fingerprint else []
    counts = torch.tensor([statistics.images, *(m.count for m in found)], dtype=torch.float64)
    sums = _summed([counts, *(m.mean * m.count for m in found)])
    totals = [round(float(total)) for total in sums[0]]
    means = [total / count for total, count in zip(sums[1:], totals[1:], strict=True)]
    deltas = [m.mean - mean for m, mean in zip(found, means, strict=True)]
    scatters = _summed([m.scatter + m.count * (d @ d.mT) for m, d in zip(found, deltas, strict=True)])
    merged = iter([Moments(*parts) for parts in zip(totals[1:], means, scatters, strict=True)])
    entries = {
        name: replace(
            entry,
            parts=tuple(tuple(next(merged) for _ in part) for part in entry.parts),
            classes=tuple(map(_classes_over_processes, entry.classes)),
        )
        for name, entry in statistics.items()
    }
    return replace(statistics, sites=entries, images=totals[0], fingerprint=next(merged, None))


def _classes_over_processes(found: ClassMoments) -> ClassMoments:
    """Moments by class of the images of all processes."""
    count = found.count[:, None]
    (total, mean) = _summed([count, count * found.mean])
    mean = mean / total.clamp_min(TINY)
    (scatter,) = _summed([count * (found.variance + (found.mean - mean).square())])
    return ClassMoments(total[:, 0], mean, scatter / total.clamp_min(TINY))


def transport_across_processes(
    covariance: Covariance, x: Features, target: Target, prior: Prior, images: Size
) -> Features:
    """Move the share of a batch that this process has by the moments of the whole: one all-reduce."""
    if not isinstance(covariance, ChannelMoments | Spectrum):
        raise InputError(
            f"{type(covariance).__name__} cannot be matched across processes; fit with shiftmatch.Spectrum() or "
            "shiftmatch.ChannelMoments()."
        )
    z = covariance.coefficients(x, target)
    test = _reduced(covariance.summarise(z, images) if images else None, target)
    check_batch(test)
    if not images:
        return x
    affine = covariance.gain_and_offset(test, target, prior)
    return covariance.features(apply(z, affine), target, x.shape[2:]).to(x.dtype)


def _reduced(test: BatchMoments | None, target: Target) -> BatchMoments:
    """Moments of the shares of all processes, from sums of n, n d and n (v + |d|²) with d = m − m° the shift."""
    to_mean = target["mean"]
    origin = torch.view_as_real(to_mean) if to_mean.is_complex() else to_mean[..., None]
    shift, variance, images = torch.zeros_like(origin), torch.zeros_like(origin[..., 0]), 0
    if test is not None:
        mean = torch.view_as_real(test.mean) if test.mean.is_complex() else test.mean[..., None]
        shift, variance, images = mean - origin, test.variance, int(test.images)
    wide = torch.float32 if origin.device.type == "mps" else torch.float64
    shift, variance = shift.to(wide), variance.to(wide)
    parts = [shift.new_full((1,), images), images * shift, images * (variance + shift.square().sum(-1))]
    count, first, second = _summed(parts)
    shift = first / count
    variance = (second / count - shift.square().sum(-1)).clamp_min(0)
    found = (origin + shift).to(origin.dtype)
    mean = torch.view_as_complex(found) if to_mean.is_complex() else found[..., 0]
    return BatchMoments(mean, variance.to(origin.dtype), int(count))


def sum_over_processes(count: int, log_p: Tensor, entropy: Tensor) -> tuple[int, Tensor, Tensor]:
    """How many members there are in all processes, the log of their summed probabilities, and their entropies."""
    if rank_and_count()[1] == 1:
        return count, log_p, entropy
    if not count:
        raise InputError("There are fewer members than processes; start fewer processes.")
    largest = log_p.clone()
    distributed.all_reduce(largest, distributed.ReduceOp.MAX)
    counts, summed, entropies = _summed([log_p.new_tensor([count]), (log_p - largest).exp(), entropy])
    return int(counts), largest + summed.log(), entropies


def _summed(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Sums over all processes, in one all-reduce."""
    flat = torch.cat([tensor.flatten() for tensor in tensors])
    distributed.all_reduce(flat)
    parts = flat.split([tensor.numel() for tensor in tensors])
    return [part.reshape(tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]


def _check_alike(statistics: Statistics) -> None:
    """Refuse to add statistics of other networks or sites: every process has the same hash, or says so."""
    layout = [(name, entry.site, entry.covariance, len(entry.classes)) for name, entry in statistics.items()]
    digest = int(content_hash([layout, statistics.weights, statistics.batchnorm])[:12], 16)
    extremes = torch.tensor([digest, -digest])
    distributed.all_reduce(extremes, distributed.ReduceOp.MAX)
    if extremes.sum() != 0:
        raise StatisticsMismatchError(
            "The processes have measured different networks or sites. Load the same weights in each of them, such as "
            "with a fixed seed, and pass images of one shape."
        )
