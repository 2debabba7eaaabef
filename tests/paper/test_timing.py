"""The timing claims are held against ratios, as seconds depend on the machine."""

from paper.experiments.timing import SECONDS, Timing

from shiftmatch.evaluation.scores import Score, Scores


def test_ratios_are_compared() -> None:
    rows = [
        Score(name, "10 images", "clean", None, SECONDS, value, 0)
        for name, value in (("plain", 2.0), ("ShiftMatch", 3.2))
    ]
    seconds, ratio = Timing(10, training=False).compare(Scores(rows))
    assert seconds.agrees is None
    assert (ratio.ours, ratio.published, ratio.agrees) == ("1.60", "1.61", True)


def test_in_training_the_other_layer_is_a_spatial_batchnorm() -> None:
    assert list(Timing(128, training=True).published) == ["plain", "spatial batchnorm"]
