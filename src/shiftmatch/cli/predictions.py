"""Predictions for a user's own images, as a table in a file."""

import csv
from os import PathLike

from shiftmatch.data.image_set import ImageSet
from shiftmatch.matching.average import Average
from shiftmatch.utils.files import atomic_path
from shiftmatch.utils.progress import track

COLUMNS = ("image", "label", "probability", "entropy")


def predict_to_csv(predict: Average, images: ImageSet, path: str | PathLike[str], *, batch: int) -> None:
    """Write one row per image, in the order of the images: the likeliest label, its probability, the entropy in nats.

    Batches mix the images at random, so that the statistics of each are those of all. The label is the name of a
    class folder if the images come in such, else the number of the class.
    """
    rows: dict[int, tuple[str, str, str, str]] = {}
    for inputs, index in track(images.batches(batch), "predicting"):
        found = predict.predict(inputs)
        labels = found.probabilities.argmax(-1).tolist()
        for position, label, p, entropy in zip(index.tolist(), labels, found.confidence, found.entropy, strict=True):
            named = images.classes[label] if label < len(images.classes) else str(label)
            rows[position] = (images.names[position], named, f"{p:.6f}", f"{entropy:.6f}")
    with atomic_path(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        writer.writerows(rows[position] for position in sorted(rows))
