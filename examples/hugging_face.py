"""A matched network in Hugging Face's pipeline and Trainer: it has the config of the network, so both take it."""

import tempfile
from typing import Any, cast

import torch
from torch.utils.data import Dataset
from transformers import Trainer, TrainingArguments, ViTConfig, ViTForImageClassification, pipeline

import shiftmatch as sm

SIDE = 32


class Pictures(Dataset[dict[str, torch.Tensor]]):
    """Bright and dark noise, as the network takes it."""

    def __init__(self, count: int, *, contrast: float = 1.0, seed: int = 0) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.labels = torch.arange(count) % 2
        noise = torch.randn(count, 3, SIDE, SIDE, generator=generator)
        self.images = contrast * (noise + 2 * self.labels[:, None, None, None] - 1)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"pixel_values": self.images[index], "labels": self.labels[index]}


def network() -> ViTForImageClassification:
    """A small vision transformer; `from_pretrained` gives a trained one."""
    torch.manual_seed(0)
    config = ViTConfig(
        image_size=SIDE, patch_size=8, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32
    )
    config.num_labels = 2
    return ViTForImageClassification(config)


def with_trainer(model: ViTForImageClassification) -> tuple[Any, sm.MatchedModel]:
    """Train, fit, match; `predict` of the Trainer then runs the matched network."""
    with tempfile.TemporaryDirectory() as folder:
        how = TrainingArguments(
            folder, num_train_epochs=2, learning_rate=1e-2, report_to=[], save_strategy="no", disable_tqdm=True,
            remove_unused_columns=False, use_cpu=True, per_device_eval_batch_size=64, label_names=["labels"],
        )  # fmt: skip
        train = Pictures(128)
        Trainer(model, how, train_dataset=train).train()
        statistics = sm.fit(model, train.images, progress=False)
        robust = sm.match(model, statistics)
        return Trainer(robust, how).predict(Pictures(64, contrast=0.3, seed=1)), robust


def with_pipeline(robust: sm.MatchedModel) -> list[list[dict[str, Any]]]:
    """Pictures in, labels out; pass a batch, whose statistics are matched."""
    from PIL import Image
    from transformers import ViTImageProcessorPil

    half, model = [0.5] * 3, cast(Any, robust)  # it has all that a pipeline asks of a network of theirs
    processor = ViTImageProcessorPil(size={"height": SIDE, "width": SIDE}, image_mean=half, image_std=half)
    classify = pipeline("image-classification", model=model, image_processor=processor, device="cpu")
    pictures = [Image.new("RGB", (40, 40), (9 * i, 99, 99)) for i in range(16)]
    found: list[list[dict[str, Any]]] = classify(pictures, batch_size=16)
    return found


if __name__ == "__main__":
    prediction, matched = with_trainer(network())
    print(prediction.metrics)
    print(with_pipeline(matched)[0])
