"""Problems whose posterior is known in closed form."""

from dataclasses import dataclass

import torch
from torch import Tensor

from shiftmatch.samplers.interface import FromFunction
from shiftmatch.samplers.params import Params
from shiftmatch.samplers.posterior import Posterior


@dataclass(frozen=True, eq=False)
class Gaussian:
    """N(mean, covariance) over each row of one parameter "x"; independent rows give many draws at once."""

    mean: Tensor
    covariance: Tensor
    rows: int = 20

    @property
    def dimension(self) -> int:
        return len(self.mean)

    @property
    def start(self) -> Params:
        return {"x": torch.zeros(self.rows, self.dimension, dtype=self.mean.dtype)}

    @property
    def log_density(self) -> FromFunction:
        precision = torch.linalg.inv(self.covariance)

        def function(params: Params) -> Tensor:
            centred = params["x"] - self.mean
            energy: Tensor = 0.5 * ((centred @ precision) * centred).sum()
            return -energy

        return FromFunction(function)


GAUSSIAN = Gaussian(
    torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64),
    torch.tensor([[0.5, 0.3, 0.0], [0.3, 1.0, -0.2], [0.0, -0.2, 0.25]], dtype=torch.float64),
)


def assert_draws_from_gaussian(posterior: Posterior, truth: Gaussian = GAUSSIAN, *, z: float = 4.5) -> None:
    """Mean and covariance of the draws are within `z` Monte-Carlo standard errors; the rows are independent."""
    centred = posterior.params["x"].double() - truth.mean
    products = centred[..., :, None] * centred[..., None, :]
    for estimate, target in ((centred, torch.zeros(truth.dimension)), (products, truth.covariance)):
        means = estimate.mean(0)
        error = means.std(0) / truth.rows**0.5
        assert ((means.mean(0) - target).abs() < z * error).all(), (means.mean(0), target, error)
