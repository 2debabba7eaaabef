import torch

from shiftmatch.corruptions import noise
from shiftmatch.corruptions.randomness import Streams

GREY = torch.full((4, 3, 64, 64), 0.4)
STREAMS = Streams.of(torch.arange(4, dtype=torch.uint8).reshape(4, 1, 1, 1), "noise")


def test_gaussian_noise_has_its_width() -> None:
    assert abs((noise.gaussian_noise(GREY, STREAMS, 0.1) - GREY).std().item() - 0.1) < 2e-3


def test_speckle_noise_grows_with_the_light() -> None:
    assert abs((noise.speckle_noise(GREY, STREAMS, 0.1) - GREY).std().item() - 0.04) < 1e-3


def test_shot_noise_counts_photons() -> None:
    shot = noise.shot_noise(GREY, STREAMS, 50)
    assert torch.allclose(shot * 50, (shot * 50).round(), atol=1e-4)
    assert abs(shot.var().item() - 0.4 / 50) < 4e-4


def test_impulse_noise_hits_its_share_with_even_odds() -> None:
    hit = noise.impulse_noise(GREY, STREAMS, 0.2)
    assert abs((hit == 1).float().mean().item() - 0.1) < 0.01
    assert abs((hit == 0).float().mean().item() - 0.1) < 0.01
    assert set(hit.flatten().tolist()) == {0.0, GREY[0, 0, 0, 0].item(), 1.0}
