import pytest

from shiftmatch.corruptions import severities

TABLES = {"cifar10-c": severities.CIFAR10_C, "imagenet-c": severities.IMAGENET_C, "mnist-c": severities.MNIST_C}


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_every_corruption_has_five_levels_of_equal_length(table: dict[str, severities.Levels]) -> None:
    for levels in table.values():
        assert len(levels) == 5
        assert len({len(level) for level in levels}) == 1


def test_the_published_levels_exist() -> None:
    assert severities.MNIST_C_PUBLISHED.keys() == severities.MNIST_C.keys()
    assert all(1 <= level <= 5 for level in severities.MNIST_C_PUBLISHED.values())
