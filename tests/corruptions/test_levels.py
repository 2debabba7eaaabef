import torch

from shiftmatch.corruptions.levels import cut_levels


def test_whole_levels_stay_and_the_rest_goes_down() -> None:
    levels = torch.arange(256)
    assert torch.equal((cut_levels(levels / 255) * 255).round().long(), levels)
    assert torch.equal((cut_levels((levels + 0.9) / 255) * 255).round().long(), levels)


def test_values_beyond_the_range_are_clipped() -> None:
    assert cut_levels(torch.tensor([-0.5, 1.5])).tolist() == [0.0, 1.0]
