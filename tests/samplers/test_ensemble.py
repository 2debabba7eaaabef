import torch
from torch import nn

from shiftmatch.models.layers import initialise
from shiftmatch.samplers.density import FromFunction, log_posterior
from shiftmatch.samplers.ensemble import deep_ensemble, sgd


def test_sgd_takes_the_steps_of_torch_with_a_cosine_schedule() -> None:
    bowl = FromFunction(lambda params: -params["x"].square().sum())
    sampler = sgd(bowl, step_size=0.1, steps=10, momentum=0.9)
    state = sampler.init({"x": torch.tensor([1.0, -2.0])})
    x = nn.Parameter(torch.tensor([1.0, -2.0]))
    optimiser = torch.optim.SGD([x], lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=10)
    for _ in range(10):
        state = sampler.step(state, torch.Generator())
        optimiser.zero_grad()
        x.square().sum().backward()
        optimiser.step()
        schedule.step()
    torch.testing.assert_close(state.params["x"], x.detach())


def test_members_learn_and_differ_and_the_seed_decides() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(200, 2, generator=generator)
    labels = (x[:, 0] * x[:, 1] > 0).long()
    network = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))
    density = log_posterior(network, (x, labels), prior_scale=3.0, batch_size=20)

    def train(seed: int) -> list[torch.Tensor]:
        ensemble = deep_ensemble(
            density, lambda g: initialise(network, g), members=2, step_size=1e-3, steps=300, seed=seed
        )
        return [model(x).detach() for model in ensemble.models(network)]

    one, other = train(0)
    for logits in (one, other):
        assert (logits.argmax(-1) == labels).float().mean() > 0.9
    assert not torch.equal(one, other)
    assert torch.equal(train(0)[0], one)
