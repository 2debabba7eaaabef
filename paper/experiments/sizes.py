"""The networks that are trained at each size."""

from paper.experiments.networks import Networks
from paper.experiments.training import Descent, Langevin, MeanField

NETWORKS = {
    "tiny": Networks(
        images=32,
        batch=4,
        members=2,
        sgd=Descent(thin=1, rounds=2, rate=0.01),
        sgld=Langevin(thin=1, burn_in=1, draws=2),
        vi=MeanField(thin=1, burn_in=1, draws=2),
        blocks=1,
    ),
    "small": Networks(
        images=20_480,
        members=3,
        sgd=Descent(thin=64, rounds=12, rate=0.2),
        sgld=Langevin(thin=64, burn_in=4, draws=4),
        vi=MeanField(thin=64, burn_in=6, draws=4, rate=3e-4),
        scale=0.3,
        threshold=-1.0,
    ),
    "paper": Networks(),
}
"""Tiny is for tests; small is what two cores train in well under an hour; paper has the published settings."""
