import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from shared_data import DATA, SHARED, needs_data, needs_shared

from shiftmatch.errors import InputError
from shiftmatch.models.resnets import CifarResNet, PadShortcut

MEAN = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
STD = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)
RECORD = 1 + 3 * 32 * 32


@needs_shared
@needs_data("cifar-10-batches-bin")
@pytest.mark.parametrize(("depth", "least"), [(20, 0.91), (32, 0.92)])
def test_published_weights_reach_their_accuracy(depth: int, least: float) -> None:
    model = CifarResNet(depth).eval()
    model.load_state_dict(load_file(SHARED / "weights" / f"resnet{depth}.safetensors"))
    raw = np.fromfile(DATA / "cifar-10-batches-bin" / "test_batch.bin", np.uint8, count=2000 * RECORD)
    records = torch.from_numpy(raw.reshape(-1, RECORD))
    images = (records[:, 1:].reshape(-1, 3, 32, 32) / 255 - MEAN) / STD
    with torch.inference_mode():
        predicted = torch.cat([model(batch).argmax(-1) for batch in torch.chunk(images, 4)])
    assert (predicted == records[:, 0]).float().mean() > least


def test_shortcut_keeps_every_second_pixel_and_centres_the_channels() -> None:
    x = torch.arange(32.0).reshape(1, 2, 4, 4)
    out = PadShortcut(2, 4)(x)
    assert torch.equal(out[:, 1:3], x[:, :, ::2, ::2])
    assert not out[:, [0, 3]].any()


def test_impossible_depth_is_refused() -> None:
    with pytest.raises(InputError, match="6n"):
        CifarResNet(21)
