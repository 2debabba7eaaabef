"""Problems whose posterior is known in closed form."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from shiftmatch.samplers.density import FromFunction, LogPosterior, log_posterior
from shiftmatch.samplers.posterior import Params, Posterior
from shiftmatch.samplers.priors import gaussian


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


@dataclass(frozen=True, eq=False)
class LogisticRegression:
    """p(y = 1 | x) = σ(w·x) with w ~ N(0, I / precision), in two dimensions, where the posterior can be tabulated.

    Every row of the weights is a chain of its own.
    """

    precision: float = 2.0
    rows: int = 200
    examples: int = 40

    @property
    def data(self) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(0)
        x = torch.randn(self.examples, 2, generator=generator, dtype=torch.float64)
        y = torch.rand(self.examples, generator=generator, dtype=torch.float64) < (2 * x[:, 0] - x[:, 1]).sigmoid()
        return x, y.double()

    def density(self, batch_size: int | None = None) -> LogPosterior:
        """The log posterior of all rows together."""
        model = nn.Linear(2, self.rows, bias=False).double()
        prior = gaussian(self.precision)
        return log_posterior(model, self.data, prior=prior, likelihood=_bernoulli, batch_size=batch_size)

    @property
    def start(self) -> Params:
        return {"weight": torch.zeros(self.rows, 2, dtype=torch.float64)}

    def table(self) -> tuple[Tensor, Tensor]:
        """Mean and covariance of the posterior, summed over a grid."""
        axis = torch.linspace(-4, 8, 400, dtype=torch.float64)
        grid = torch.cartesian_prod(axis, axis - 3)
        x, y = self.data
        log_density = -functional.binary_cross_entropy_with_logits(
            grid @ x.T, y.expand(len(grid), -1), reduction="none"
        ).sum(1) - 0.5 * self.precision * grid.square().sum(1)
        weight = log_density.softmax(0)
        mean = weight @ grid
        centred = grid - mean
        return mean, (weight[:, None] * centred).T @ centred


def _bernoulli(logits: Tensor, targets: Tensor) -> Tensor:
    expected = targets[:, None].expand_as(logits)
    return -functional.binary_cross_entropy_with_logits(logits, expected, reduction="sum")
