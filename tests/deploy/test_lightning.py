"""Lightning trains the network and tests the matched one."""

from pathlib import Path
from typing import Any

import pytest
import torch
from made_matched import corrupted, images, small_network
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import shiftmatch as sm
from shiftmatch.errors import InputError

lightning: Any = pytest.importorskip("pytorch_lightning")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # of Lightning's own


class Module(lightning.LightningModule):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.model = small_network()
        self.seen: list[tuple[type, Tensor]] = []

    def training_step(self, batch: Any, _: int) -> Tensor:
        return nn.functional.cross_entropy(self.model(batch[0]), batch[1])

    def test_step(self, batch: Any) -> None:
        self.seen.append((type(self.model), self.model(batch[0])))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), 1e-2)


def test_statistics_after_training_and_a_matched_network_in_the_test(tmp_path: Path) -> None:
    from shiftmatch.deploy.lightning import ShiftMatchCallback

    def loader(x: Tensor) -> DataLoader[Any]:
        return DataLoader(TensorDataset(x, torch.arange(len(x)) % 10), batch_size=50)

    module, callback = Module(), ShiftMatchCallback("model")
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "accelerator": "cpu"}
    trainer = lightning.Trainer(max_epochs=1, callbacks=[callback], default_root_dir=tmp_path, **quiet)
    with pytest.raises(InputError, match="no statistics yet"):
        trainer.test(module, loader(corrupted(50)), verbose=False)
    trainer.fit(module, loader(images(100)))
    trainer.test(module, loader(corrupted(50)), verbose=False)
    ((kind, found),) = module.seen
    assert issubclass(kind, sm.MatchedModel)
    assert callback.statistics is not None
    assert callback.statistics.images == 100
    torch.testing.assert_close(found, sm.match(module.model, callback.statistics)(corrupted(50)).detach())
    assert not isinstance(module.model, sm.MatchedModel)
    with pytest.raises(InputError, match=r"no network 'net'; it has model"):
        ShiftMatchCallback("net", statistics=callback.statistics).on_test_start(trainer, module)
