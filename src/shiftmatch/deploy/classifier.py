"""A network as scikit-learn has classifiers: arrays in, arrays out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from shiftmatch.errors import InputError
from shiftmatch.matching.average import Average, average
from shiftmatch.matching.inputs import Inputs


@final
@dataclass(frozen=True, eq=False)
class Classifier:
    """`predict_proba`, `predict` and `score` of a network, a matched one, or an average of several.

    Args:
        model: what takes a batch and returns logits; or what `shiftmatch.average` returned.
        classes: what `predict` calls the classes; those of the statistics unless given, else numbers.
        batch_size: images that are matched together, at most; batches are nearly equal.

    >>> import shiftmatch as sm
    >>> net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    >>> robust = sm.match(net, sm.fit(net, torch.randn(300, 4), classes=["cat", "dog", "hen"]))
    >>> classifier = Classifier(robust)
    >>> classifier.predict_proba(np.ones((5, 4))).shape, str(classifier.predict(np.ones((5, 4)))[0]) in "cat dog hen"
    ((5, 3), True)
    """

    model: nn.Module | Average
    classes: Sequence[Any] = ()
    batch_size: int = 200

    def predict_proba(self, images: NDArray[Any] | Tensor) -> NDArray[np.floating]:
        """The probability of each class, one row for each image; images are as the network takes them."""
        inputs = torch.as_tensor(images)
        if inputs.ndim < 2 or not len(inputs):
            raise InputError(f"Expected a batch of images, (n, …); got an array of shape {tuple(inputs.shape)}.")
        predict = self.model if isinstance(self.model, Average) else average([self.model])
        batches = inputs.tensor_split(-(-len(inputs) // self.batch_size))
        found = [predict(*self._moved(batch).args).cpu() for batch in batches]
        return torch.cat(found).numpy()

    def predict(self, images: NDArray[Any] | Tensor) -> NDArray[Any]:
        """The most probable class of each image."""
        p = self.predict_proba(images)
        found: NDArray[Any] = self.classes_(p.shape[1])[p.argmax(1)]
        return found

    def score(self, images: NDArray[Any] | Tensor, labels: Sequence[Any] | NDArray[Any]) -> float:
        """The share of images whose class is predicted."""
        return float(np.mean(self.predict(images) == np.asarray(labels)))

    def classes_(self, count: int) -> NDArray[Any]:
        """What so many classes are called."""
        if self.classes and len(self.classes) != count:
            raise InputError(f"There are {len(self.classes)} names for the {count} classes of the network.")
        names = list(self.classes) or list(getattr(getattr(self.model, "statistics", None), "classes", ()))
        return np.asarray(names) if len(names) == count else np.arange(count)

    def _moved(self, batch: Tensor) -> Inputs:
        return Inputs.of(batch).on(self.model) if isinstance(self.model, nn.Module) else Inputs.of(batch)
