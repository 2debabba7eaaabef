"""A callback for Lightning: statistics at the end of training, a matched network while testing."""

from collections.abc import Iterable
from typing import Any

from torch import nn

from shiftmatch.errors import InputError, ShiftMatchError
from shiftmatch.matching.match import MatchedModel, fit, match
from shiftmatch.matching.statistics import Statistics
from shiftmatch.matching.strength import AutoMatchedModel

try:
    from lightning.pytorch import Callback
except ModuleNotFoundError:
    try:
        from pytorch_lightning import Callback
    except ModuleNotFoundError as error:
        raise ShiftMatchError("This callback needs Lightning: pip install lightning.") from error


class ShiftMatchCallback(Callback):  # type: ignore[misc,unused-ignore]
    """Fits when training ends, and tests and predicts with the matched network in the place of the network.

    Args:
        network: the name of the network in the LightningModule, such as "model" for `self.model`.
        data: clean training images without augmentation; the batches of training unless given.
        statistics: what was fitted before, if nothing is trained.
        settings: those of `shiftmatch.match`, such as `strength="auto"`.

    `trainer = Trainer(callbacks=[ShiftMatchCallback("model")])`, then `trainer.fit(module)` and `trainer.test(module)`.
    """

    def __init__(
        self,
        network: str = "model",
        data: Iterable[Any] | None = None,
        statistics: Statistics | None = None,
        **settings: Any,
    ) -> None:
        self.network, self.data, self.statistics, self.settings = network, data, statistics, settings
        self._plain: nn.Module | None = None

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Measure the training images."""
        data = trainer.train_dataloader if self.data is None else self.data
        across = trainer.world_size > 1
        self.statistics = fit(self._found(pl_module), data, across_processes=across, progress=False)

    def on_test_start(self, trainer: Any, pl_module: Any) -> None:
        """Put the matched network in place."""
        if self.statistics is None:
            raise InputError("There are no statistics yet: train first, or pass statistics=shiftmatch.fit(…).")
        self._plain = self._found(pl_module)
        robust: MatchedModel | AutoMatchedModel = match(self._plain, self.statistics, **self.settings)
        setattr(pl_module, self.network, robust)

    def on_test_end(self, trainer: Any, pl_module: Any) -> None:
        """Put the network back."""
        if self._plain is not None:
            setattr(pl_module, self.network, self._plain)
            self._plain = None

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Put the network back."""
        self.on_test_end(trainer, pl_module)

    on_predict_start, on_predict_end = on_test_start, on_test_end

    def _found(self, pl_module: Any) -> nn.Module:
        found = getattr(pl_module, self.network, None)
        if not isinstance(found, nn.Module):
            names = ", ".join(name for name, _ in pl_module.named_children())
            raise InputError(f"The LightningModule has no network {self.network!r}; it has {names}.")
        return found
