import math

import pytest
import torch
from known_answers import GAUSSIAN, assert_draws_from_gaussian

from shiftmatch.errors import InputError
from shiftmatch.samplers.density import FromFunction, log_posterior
from shiftmatch.samplers.hmc import LEAPFROG, TWO_STAGE, HMCState, Integrator, PhasePoint, hmc, integrate
from shiftmatch.samplers.posterior import Params, standard_normal
from shiftmatch.samplers.preconditioning import Diagonal
from shiftmatch.samplers.sampling import Sampler, sample

CUBIC = FromFunction(lambda params: -params["x"].abs().pow(3).sum())


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_draws_from_a_gaussian_have_its_mean_covariance_and_energy() -> None:
    sampler = hmc(GAUSSIAN.log_density, step_size=0.2, trajectory=1.0)
    draws = sample(sampler, GAUSSIAN.start, draws=400, burn_in=20, generator=generator())
    assert_draws_from_gaussian(draws)
    energy = -torch.tensor(draws.info["trace"]["log_density"][20:])
    assert energy.mean() == pytest.approx(GAUSSIAN.rows * GAUSSIAN.dimension / 2, rel=0.03)


def test_without_the_metropolis_step_the_same_test_fails() -> None:
    """The step is so long that uncorrected leapfrog would sample a visibly wider distribution."""
    honest = hmc(GAUSSIAN.log_density, step_size=0.35, trajectory=0.7, jitter=0.0)
    assert_draws_from_gaussian(sample(honest, GAUSSIAN.start, draws=1000, burn_in=20, generator=generator(1)))
    wrong = sample(_accept_everything(0.35, 0.7), GAUSSIAN.start, draws=1000, burn_in=20, generator=generator(1))
    with pytest.raises(AssertionError):
        assert_draws_from_gaussian(wrong)


def _accept_everything(step_size: float, trajectory: float) -> Sampler[HMCState]:
    right = hmc(GAUSSIAN.log_density, step_size=step_size, trajectory=trajectory)

    def step(state: HMCState, generator: torch.Generator) -> HMCState:
        start = PhasePoint(state.params, standard_normal(state.params, generator), state.log_density, state.gradient)
        steps = math.ceil(trajectory / step_size)
        end = integrate(GAUSSIAN.log_density, start, LEAPFROG, None, size=step_size, steps=steps, generator=generator)
        return state._replace(params=end.params, gradient=end.gradient, log_density=end.log_density)

    return Sampler(right.init, step)


@pytest.mark.parametrize("integrator", [LEAPFROG, TWO_STAGE])
def test_trajectories_are_reversible(integrator: Integrator) -> None:
    params: Params = {"x": torch.randn(10, generator=generator(), dtype=torch.float64)}
    value, gradient = CUBIC.value_and_grad(params, generator())
    start = PhasePoint(params, standard_normal(params, generator(2)), value, gradient)
    scales = Diagonal({"x": torch.linspace(0.5, 1.5, 10, dtype=torch.float64)})
    there = integrate(CUBIC, start, integrator, scales, size=0.05, steps=40, generator=generator())
    turned = there._replace(momentum={"x": -there.momentum["x"]})
    back = integrate(CUBIC, turned, integrator, scales, size=0.05, steps=40, generator=generator())
    assert (back.params["x"] - params["x"]).abs().max() < 1e-6
    assert (back.momentum["x"] + start.momentum["x"]).abs().max() < 1e-6
    assert (there.params["x"] - params["x"]).abs().max() > 0.1


def test_two_stages_err_less_than_leapfrog_for_the_same_number_of_gradients() -> None:
    errors = {}
    for name, integrator, size in (("leapfrog", LEAPFROG, 0.15), ("two stages", TWO_STAGE, 0.3)):
        sampler = hmc(GAUSSIAN.log_density, step_size=size, trajectory=1.5, integrator=integrator)
        trace = sample(sampler, GAUSSIAN.start, draws=100, burn_in=10, generator=generator(5)).info["trace"]
        errors[name] = torch.tensor(trace["energy_error"][10:]).std()
    assert errors["two stages"] < 0.5 * errors["leapfrog"]


def test_detailed_balance_on_a_grid() -> None:
    """In equilibrium, as many moves go from cell i to cell j as from j to i."""
    sampler = hmc(CUBIC, step_size=0.9, trajectory=0.9, jitter=0.0)
    draws = sample(sampler, {"x": torch.zeros(1)}, draws=2000, burn_in=10, generator=generator(3))
    cells = torch.bucketize(draws.params["x"][:, 0], torch.tensor([-0.7, 0.0, 0.7]))
    flow = torch.zeros(4, 4)
    flow.index_put_((cells[:-1], cells[1:]), torch.ones(()), accumulate=True)
    assert ((flow - flow.T).abs() <= 4 * (flow + flow.T).sqrt()).all()
    assert 0.5 < torch.tensor(draws.info["trace"]["acceptance"]).mean() < 0.95


@pytest.mark.parametrize("first", [1e-3, 0.05, 2.0])
def test_tuning_reaches_the_target_acceptance_from_far_away_and_then_stops(first: float) -> None:
    """A trajectory of many steps, because its number of steps is whole: a short one can only tune in jumps."""
    sampler = hmc(GAUSSIAN.log_density, step_size=first, trajectory=2.0, tune=60, target=0.8)
    trace = sample(sampler, GAUSSIAN.start, draws=60, burn_in=60, generator=generator(4)).info["trace"]
    assert torch.tensor(trace["acceptance"][60:]).mean() == pytest.approx(0.8, abs=0.15)
    assert len(set(trace["step_size"][60:])) == 1


def test_draws_are_not_kept_while_the_step_is_tuned() -> None:
    sampler = hmc(GAUSSIAN.log_density, step_size=0.1, trajectory=1.0, tune=5)
    with pytest.raises(InputError, match="burn_in=5 or more"):
        sample(sampler, GAUSSIAN.start, draws=2, burn_in=4, generator=generator())
    with pytest.raises(InputError, match="burn_in=3 or more"):
        sample(sampler, GAUSSIAN.start, draws=2, burn_in=2, thin=2, generator=generator())


def test_a_trajectory_of_one_period_goes_nowhere_unless_its_length_is_jittered() -> None:
    """On N(0, I), a trajectory of 2π returns to where it began: the start keeps its hold on the variance."""
    normal = FromFunction(lambda params: -0.5 * params["x"].square().sum())
    far = {"x": torch.full((200,), 3.0)}
    variance = {}
    for jitter in (0.0, 0.2):
        sampler = hmc(normal, step_size=0.2, trajectory=2 * math.pi, jitter=jitter)
        draws = sample(sampler, far, draws=20, burn_in=15, generator=generator(8)).params["x"]
        variance[jitter] = draws.square().mean().item()
    assert variance[0.0] > 5
    assert variance[0.2] == pytest.approx(1.0, abs=0.15)


def test_the_virial_of_a_gaussian_around_zero_is_its_dimension() -> None:
    centred = FromFunction(lambda params: GAUSSIAN.log_density.function({"x": params["x"] + GAUSSIAN.mean}))
    sampler = hmc(centred, step_size=0.2, trajectory=1.0)
    trace = sample(sampler, GAUSSIAN.start, draws=200, burn_in=10, generator=generator()).info["trace"]
    size = GAUSSIAN.rows * GAUSSIAN.dimension
    assert torch.tensor(trace["virial"][10:]).mean() == pytest.approx(size, rel=0.05)


def test_a_minibatch_density_is_refused() -> None:
    data = torch.zeros(6, 2), torch.zeros(6, dtype=torch.long)
    with pytest.raises(InputError, match="minibatches of 3"):
        hmc(log_posterior(torch.nn.Linear(2, 2), data, batch_size=3), step_size=0.1, trajectory=1.0)


def test_a_diverging_trajectory_is_rejected() -> None:
    steep = FromFunction(lambda params: -params["x"].pow(4).sum())
    state = hmc(steep, step_size=1e3, trajectory=1e4).init({"x": torch.ones(3)})
    after = hmc(steep, step_size=1e3, trajectory=1e4).step(state, generator())
    assert torch.equal(after.params["x"], state.params["x"])
    assert after.acceptance == 0


def test_scales_change_the_path_but_not_the_distribution() -> None:
    scales = Diagonal({"x": GAUSSIAN.covariance.diagonal().sqrt().expand(GAUSSIAN.rows, -1)})
    sampler = hmc(GAUSSIAN.log_density, step_size=0.3, trajectory=1.5, preconditioner=scales)
    assert_draws_from_gaussian(sample(sampler, GAUSSIAN.start, draws=400, burn_in=20, generator=generator(6)))


def test_impossible_times_are_refused() -> None:
    with pytest.raises(InputError, match="trajectory"):
        hmc(GAUSSIAN.log_density, step_size=2.0, trajectory=1.0)
    with pytest.raises(InputError, match="jitter"):
        hmc(GAUSSIAN.log_density, step_size=0.1, trajectory=1.0, jitter=1.0)


def test_a_start_that_is_impossible_is_refused() -> None:
    positive = FromFunction(lambda params: params["x"].log().sum() - params["x"].sum())
    with pytest.raises(InputError, match=r"log p is -inf at the start.*Start elsewhere"):
        hmc(positive, step_size=0.1, trajectory=1.0).init({"x": torch.zeros(2)})
