import torch
from hypothesis import given
from hypothesis import strategies as st

from shiftmatch.corruptions import noise
from shiftmatch.corruptions.noise import Generators

GREY = torch.full((4, 3, 64, 64), 0.4)
RNG = Generators.of(torch.arange(4, dtype=torch.uint8).reshape(4, 1, 1, 1), "noise")


def test_gaussian_noise_has_its_width() -> None:
    assert abs((noise.gaussian_noise(GREY, RNG, 0.1) - GREY).std().item() - 0.1) < 2e-3


def test_speckle_noise_grows_with_the_light() -> None:
    assert abs((noise.speckle_noise(GREY, RNG, 0.1) - GREY).std().item() - 0.04) < 1e-3


def test_shot_noise_counts_photons() -> None:
    shot = noise.shot_noise(GREY, RNG, 50)
    assert torch.allclose(shot * 50, (shot * 50).round(), atol=1e-4)
    assert abs(shot.var().item() - 0.4 / 50) < 4e-4


def test_impulse_noise_hits_its_share_with_even_odds() -> None:
    hit = noise.impulse_noise(GREY, RNG, 0.2)
    assert abs((hit == 1).float().mean().item() - 0.1) < 0.01
    assert abs((hit == 0).float().mean().item() - 0.1) < 0.01
    assert set(hit.flatten().tolist()) == {0.0, GREY[0, 0, 0, 0].item(), 1.0}


IMAGES = torch.randint(0, 256, (6, 3, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


@given(st.permutations(range(6)))
def test_a_generator_follows_its_image_through_any_order(order: list[int]) -> None:
    there = Generators.of(IMAGES, "key").normal(4)
    assert torch.equal(Generators.of(IMAGES[order], "key").normal(4), there[order])


def test_key_and_content_both_change_the_draws() -> None:
    draws = Generators.of(IMAGES, 0, "fog").uniform(0, 1, 3)
    assert not torch.equal(draws, Generators.of(IMAGES, 1, "fog").uniform(0, 1, 3))
    assert len(set(draws.flatten().tolist())) == draws.numel()


def test_draws_have_their_distributions() -> None:
    rng = Generators.of(IMAGES, "moments")
    normal = rng.normal(100, 100, loc=2.0, scale=3.0)
    assert abs(normal.mean().item() - 2) < 0.05
    assert abs(normal.std().item() - 3) < 0.05
    assert set(rng.integers(-2, 2, 500).flatten().tolist()) == {-2, -1, 0, 1}
    assert set(rng.signs(50).flatten().tolist()) == {-1.0, 1.0}
    counts = rng.poisson(torch.full((6, 5_000), 7.0))
    assert abs(counts.mean().item() - 7) < 0.1
    assert abs(counts.var().item() - 7) < 0.3
