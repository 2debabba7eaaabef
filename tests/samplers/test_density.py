from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from shiftmatch.errors import InputError
from shiftmatch.models import build
from shiftmatch.samplers.density import log_posterior
from shiftmatch.samplers.hmc import hmc
from shiftmatch.samplers.params import params_of
from shiftmatch.samplers.priors import gaussian
from shiftmatch.samplers.sampling import sample
from shiftmatch.utils.parallel import parallel_map


def data(count: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(count, 1, 28, 28, generator=generator), torch.randint(10, (count,), generator=generator)


@pytest.mark.parametrize("chunk", [1, 7, 100])
def test_the_gradient_in_pieces_is_that_of_one_plain_backward_pass(chunk: int) -> None:
    model, (images, labels) = build("lenet").double(), data(20)
    density = log_posterior(model, (images.double(), labels), prior=gaussian(100.0), temperature=0.5, chunk=chunk)
    value, gradient = density.value_and_grad(params_of(model), torch.Generator())
    log_likelihood = -functional.cross_entropy(model(images.double()), labels, reduction="sum")
    expected = (log_likelihood - 50 * sum(p.square().sum() for p in model.parameters())) / 0.5
    expected.backward()
    torch.testing.assert_close(value, expected.detach())
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(gradient[name], parameter.grad)


class Uncopyable(nn.Linear):
    def __deepcopy__(self, memo: object) -> "Uncopyable":
        raise TypeError


def flat(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 10), *layers).double()


@pytest.mark.parametrize(
    ("model", "at_once"),
    [
        (build("lenet").double(), 2),
        (flat(nn.BatchNorm1d(10)).eval(), 2),
        (flat(nn.BatchNorm1d(10)), 1),
        (flat(nn.Dropout(0.0)), 1),
        (flat(Uncopyable(10, 10)), 1),
    ],
    ids=["lenet", "evaluation", "batchnorm", "dropout", "uncopyable"],
)
def test_threads_share_the_pieces_where_these_need_nothing_of_each_other(
    model: nn.Module, at_once: int, two_threads: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts: list[int] = []

    def noted(work: Callable[[Any], Any], items: list[Any]) -> list[Any]:
        parts.append(len(items))
        return parallel_map(work, items)

    monkeypatch.setattr("shiftmatch.samplers.density.shared", noted)
    images, labels = data(20)
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    pieces, whole = (log_posterior(model, (images.double(), labels), chunk=chunk) for chunk in (7, 20))
    value, gradient = pieces.value_and_grad(params_of(model), torch.Generator())
    if at_once == 2:
        expected, expected_gradient = whole.value_and_grad(params_of(model), torch.Generator())
        torch.testing.assert_close(value, expected)
        torch.testing.assert_close(gradient, expected_gradient)
        torch.testing.assert_close(dict(model.named_buffers()), before)
    assert parts[0] == at_once


def test_autocast_reaches_every_piece(two_threads: None) -> None:
    model, (images, labels) = build("lenet"), data(20)
    seen: list[torch.dtype] = []

    def likelihood(logits: Tensor, targets: Tensor) -> Tensor:
        seen.append(logits.dtype)
        return -functional.cross_entropy(logits.float(), targets, reduction="sum")

    with torch.autocast("cpu", torch.bfloat16):
        density = log_posterior(model, (images, labels), likelihood=likelihood, chunk=5)
        density.value_and_grad(params_of(model), torch.Generator())
    assert seen == [torch.bfloat16] * 4


class Viewing(nn.Module):
    """Flattens with `view`, which needs the channels first."""

    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.Sequential(nn.Conv2d(1, 3, 3), nn.Conv2d(3, 3, 3))
        self.dense = nn.Linear(3 * 24 * 24, 10)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.dense(self.convs(x).view(len(x), -1))
        return logits


@pytest.mark.parametrize(
    ("model", "layout"),
    [
        (nn.Sequential(Viewing().convs, nn.Flatten(), nn.Linear(3 * 24 * 24, 10)), torch.channels_last),
        (build("lenet"), torch.contiguous_format),
        (Viewing(), torch.contiguous_format),
    ],
    ids=["flatten", "blocks", "view"],
)
def test_the_layout_is_one_that_the_network_takes_and_gradients_do_not_show_it(
    model: nn.Module, layout: torch.memory_format
) -> None:
    images, labels = data(5)
    density = log_posterior(model, (images, labels))
    assert density.layout == layout
    value, gradient = density.value_and_grad(params_of(model), torch.Generator())
    assert value.isfinite()
    assert all(g.is_contiguous() for g in gradient.values())


def test_finding_the_layout_leaves_no_trace() -> None:
    model = nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.Dropout(), nn.Flatten(), nn.Linear(3 * 26 * 26, 10))
    before, state = {k: v.clone() for k, v in model.state_dict().items()}, torch.get_rng_state()
    log_posterior(model, data(5))
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_minibatches_are_unbiased() -> None:
    """Every minibatch of one, weighted, averages to the whole."""
    model, (images, labels) = build("mlp", hidden=()), data(6)
    params = params_of(model)
    whole, _ = log_posterior(model, (images, labels)).value_and_grad(params, torch.Generator())
    single = log_posterior(model, (images, labels), batch_size=1)
    generator = torch.Generator().manual_seed(0)
    values = {round(single.value_and_grad(params, generator)[0].item(), 6) for _ in range(100)}
    assert len(values) == 6
    assert sum(values) / 6 == pytest.approx(whole.item(), rel=1e-5)


def test_hmc_on_bayesian_linear_regression_has_the_exact_posterior() -> None:
    """y = x w + noise of variance 1, w ~ N(0, I): posterior N(S xᵀy, S), S = (xᵀx + I)⁻¹."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(15, 3, generator=generator).double()
    y = torch.randn(15, 1, generator=generator).double()
    model = nn.Linear(3, 1, bias=False).double()

    def likelihood(outputs: Tensor, targets: Tensor) -> Tensor:
        return -0.5 * (outputs - targets).square().sum()

    density = log_posterior(model, (x, y), prior_scale=1.0, likelihood=likelihood)
    sampler = hmc(density, step_size=0.1, trajectory=0.3)
    draws = sample(sampler, model, draws=500, burn_in=20, generator=generator).params["weight"][:, 0]
    covariance = torch.linalg.inv(x.T @ x + torch.eye(3))
    error = (covariance.diagonal() / 150).sqrt()  # as if one draw in three were independent
    assert ((draws.mean(0) - covariance @ x.T @ y[:, 0]).abs() < 4 * error).all()
    torch.testing.assert_close(torch.cov(draws.T), covariance, rtol=0.35, atol=0.3 * covariance.diagonal().min().item())


def test_impossible_data_are_refused() -> None:
    model = nn.Linear(1, 2)
    with pytest.raises(InputError, match="one target"):
        log_posterior(model, (torch.zeros(3, 1), torch.zeros(2)))
    with pytest.raises(InputError, match="batch_size=4"):
        log_posterior(model, (torch.zeros(3, 1), torch.zeros(3)), batch_size=4)
