"""The published settings, where the defaults state them."""

from paper.experiments.training import Descent, Langevin, MeanField

EPOCH = 40_960 // 80


def test_defaults_are_the_published_settings() -> None:
    sgd, sgld, vi = Descent(), Langevin(), MeanField()
    assert (sgd.thin, sgd.rounds, round(sgd.rate, 4), sgd.weight_decay) == (EPOCH, 500, 0.0123, 10.0)
    assert sgd.burn_in + sgd.draws == sgd.rounds
    assert (sgld.thin * sgld.burn_in, sgld.thin * (sgld.burn_in + sgld.draws)) == (1000 * EPOCH, 10_000 * EPOCH)
    assert (vi.thin * vi.burn_in, vi.draws, vi.rate) == (300 * EPOCH, 50, 1e-4)
