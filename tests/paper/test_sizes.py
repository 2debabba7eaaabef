from paper.experiments.networks import Networks
from paper.experiments.sizes import NETWORKS


def test_the_paper_size_is_the_default_and_small_is_smaller() -> None:
    assert NETWORKS["paper"] == Networks()
    small = NETWORKS["small"]
    assert small.images < 40_960
    assert small.sgd.thin * small.sgd.rounds * small.batch < 100_000
