import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from shiftmatch.errors import InputError
from shiftmatch.models import build
from shiftmatch.samplers.density import log_posterior
from shiftmatch.samplers.hmc import hmc
from shiftmatch.samplers.posterior import params_of
from shiftmatch.samplers.priors import gaussian
from shiftmatch.samplers.sampling import sample


def data(count: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(count, 1, 28, 28, generator=generator), torch.randint(10, (count,), generator=generator)


@pytest.mark.parametrize("micro_batch", [1, 7, 100])
def test_the_gradient_in_micro_batches_is_that_of_one_plain_backward_pass(micro_batch: int) -> None:
    model, (images, labels) = build("lenet").double(), data(20)
    density = log_posterior(
        model, (images.double(), labels), prior=gaussian(100.0), temperature=0.5, micro_batch=micro_batch
    )
    value, gradient = density.value_and_grad(params_of(model), torch.Generator())
    log_likelihood = -functional.cross_entropy(model(images.double()), labels, reduction="sum")
    expected = (log_likelihood - 50 * sum(p.square().sum() for p in model.parameters())) / 0.5
    expected.backward()
    torch.testing.assert_close(value, expected.detach())
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(gradient[name], parameter.grad)


@pytest.mark.parametrize("count", [1, 3])
def test_the_likelihood_of_any_images_can_be_asked_for(count: int) -> None:
    model, (images, labels) = build("lenet"), data(20)
    density = log_posterior(model, (images, labels))
    expected = -functional.cross_entropy(model(images[:count]), labels[:count], reduction="sum")
    torch.testing.assert_close(density.log_likelihood(params_of(model), images[:count], labels[:count]), expected)


def test_some_parameters_are_sampled_and_the_others_stay() -> None:
    model, (images, labels) = build("lenet"), data(20)
    part = params_of(model, ["dense3.*", "conv1.bias"])
    assert list(part) == ["conv1.bias", "dense3.weight", "dense3.bias"]
    density = log_posterior(model, (images, labels))
    (_, whole), (_, some) = (density.value_and_grad(p, torch.Generator()) for p in (params_of(model), part))
    assert some.keys() == part.keys()
    torch.testing.assert_close(some["conv1.bias"], whole["conv1.bias"])
    with pytest.raises(InputError, match=r"like 'fc\.\*'.*dense3"):
        params_of(model, "fc.*")


def test_batchnorm_and_dropout_must_not_change_from_batch_to_batch() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10), nn.BatchNorm1d(10), nn.Dropout())
    with pytest.raises(InputError, match=r"2 \(BatchNorm1d\).*model\.eval\(\)"):
        log_posterior(model, data(5))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    density = log_posterior(model.eval(), data(20), micro_batch=7)
    values = {density.value_and_grad(params_of(model), torch.Generator())[0].item() for _ in range(3)}
    assert len(values) == 1
    torch.testing.assert_close(model.state_dict(), before)


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
    for name in ("temperature", "prior_scale"):
        with pytest.raises(InputError, match=f"{name} must be positive"):
            log_posterior(model, (torch.zeros(3, 1), torch.zeros(3)), **{name: 0.0})  # type: ignore[arg-type]
