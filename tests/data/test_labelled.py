import pytest
import torch

from shiftmatch.data.labelled import Gallery, Labelled
from shiftmatch.errors import FileFormatError, InputError

IMAGES = torch.arange(5, dtype=torch.uint8).reshape(5, 1, 1, 1)


def test_a_tensor_is_a_gallery() -> None:
    assert isinstance(IMAGES, Gallery)


def test_first_keeps_images_and_labels_together() -> None:
    part = Labelled(IMAGES, torch.arange(5), "five", "here").first(2)
    assert part.images[torch.tensor([1])].item() == part.labels[1] == 1
    assert len(part) == 2
    assert part.first(None) is part
    with pytest.raises(InputError, match="not 0"):
        part.first(0)


def test_images_and_labels_must_match() -> None:
    with pytest.raises(FileFormatError, match=r"five.*5 images but 4 labels"):
        Labelled(IMAGES, torch.arange(4), "five", "here")
