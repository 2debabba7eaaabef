"""The timing claims are held against ratios, as seconds depend on the machine; the layer that is timed is right."""

import torch
from paper.claims import Verdict
from paper.timing import FORWARD, SECONDS, SpatialBatchNorm, Timing, _whitened, with_spatial_batchnorm

from shiftmatch.evaluation.scores import Score, Scores
from shiftmatch.models.resnets import ResNetFRN


def test_ratios_are_compared() -> None:
    rows = [
        Score(name, f"10 images, {FORWARD}", "clean", None, SECONDS, value, 0, 5, 0.01)
        for name, value in (("plain", 2.0), ("ShiftMatch (paper)", 3.2))
    ]
    seconds, ratio = Timing(10, training=False).compare(Scores(rows))
    assert seconds.verdict is Verdict.NOT_JUDGED
    assert (ratio.ours, ratio.published, ratio.verdict) == ("1.600", "1.609", Verdict.AGREES)


def test_a_spatial_batchnorm_whitens_every_channel() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(400, 2, 3, 4, generator=generator) @ torch.randn(4, 4, generator=generator)
    white = _whitened(x.transpose(0, 1).flatten(1, 2))
    covariance = white.mT @ white / white.shape[1]
    assert torch.allclose(covariance, torch.eye(4).expand(2, 4, 4), atol=0.01)


def test_gradients_pass_through_the_moments() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2, 6, 3, dtype=torch.float64, generator=generator, requires_grad=True)
    assert torch.autograd.gradcheck(_whitened, (x,))
    layer = SpatialBatchNorm(2, 3)
    images = torch.randn(5, 2, 3, 3, generator=generator, requires_grad=True)
    layer(images).square().sum().backward()
    assert all(parameter.grad is not None for parameter in layer.parameters())
    # What the layer gives does not depend on the scale of a batch, so no gradient points along the batch itself.
    assert images.grad is not None
    assert abs((images.grad * (images - images.mean())).sum()) < 0.1 * images.grad.norm() * images.norm()


def test_the_layer_stands_where_matching_would() -> None:
    network = with_spatial_batchnorm(ResNetFRN(blocks=1))
    layers = [name for name, module in network.named_modules() if isinstance(module, SpatialBatchNorm)]
    assert len(layers) == 1 + 2 * 3
    assert not any("shortcut" in name for name in layers)
    assert network(torch.randn(40, 3, 32, 32)).shape == (40, 10)
