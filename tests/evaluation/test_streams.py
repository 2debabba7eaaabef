from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from shiftmatch.data.images import Labelled
from shiftmatch.errors import InputError
from shiftmatch.evaluation.streams import CLEAN, Stream, batches
from shiftmatch.evaluation.suites import Suite

KINDS = ("iid", "mixture:0.5", "mixture:0.3", "dirichlet:0.1", "dirichlet:100", "gradual")


def numbered_suite(count: int, classes: int = 10, severities: Sequence[int | None] = (1, 2, 3)) -> Suite:
    """A suite whose images are their own numbers, so that each can be told from the others."""
    rows = torch.arange(count).reshape(count, 1, 1, 1)
    images = torch.cat([rows // 256, rows % 256, torch.full_like(rows, 128)], dim=1).to(torch.uint8)
    images = images.expand(count, 3, 16, 16)
    labels = torch.arange(count) % classes  # in order, as class-sorted as can be after sorting
    clean = Labelled(images, labels.sort().values, "numbers", "made up")
    return Suite("cifar10-c", clean, ("brightness", "contrast"), tuple(severities))


def positions(planned: Stream) -> list[int]:
    return planned.index.tolist()


@given(st.sampled_from(KINDS), st.integers(1, 60), st.integers(1, 70), st.integers(0, 3))
def test_every_image_comes_exactly_once(name: str, count: int, batch: int, seed: int) -> None:
    planned = batches(name, numbered_suite(count), batch_size=batch, seed=seed)
    sizes = [len(labels) for _, labels in planned]
    assert sum(sizes) == count
    assert len(sizes) == len(planned)
    assert all(size == batch for size in sizes[:-1])
    assert sorted(positions(planned)) == list(range(count))


@pytest.mark.parametrize("name", KINDS)
def test_batches_hold_the_planned_images_corruptions_and_labels(name: str) -> None:
    suite = numbered_suite(50)
    planned = batches(name, suite, batch_size=16)
    images = torch.cat([images for images, _ in planned])
    labels = torch.cat([labels for _, labels in planned])
    for place, (position, cell) in enumerate(zip(positions(planned), planned.cells, strict=True)):
        at = torch.tensor([position])
        expected = suite.clean.images[at] if cell == CLEAN else suite.images(*cell, at)
        assert torch.equal(images[place], expected[0])
        assert labels[place] == suite.labels[position]


@pytest.mark.parametrize("name", KINDS)
def test_name_and_seed_fix_the_stream_whatever_the_batch(name: str) -> None:
    suite = numbered_suite(100)
    one, other = batches(name, suite, batch_size=7, seed=1), batches(name, suite, batch_size=100, seed=1)
    assert positions(one) == positions(other)
    assert one.cells == other.cells
    assert positions(one) != positions(batches(name, suite, batch_size=7, seed=2))


def test_iid_batches_mix_the_classes() -> None:
    _, labels = next(iter(batches("iid", numbered_suite(1000), batch_size=200)))
    counts = labels.bincount(minlength=10)
    assert counts.min() >= 8  # 20 expected, standard deviation about 4


@given(st.floats(0, 1), st.integers(1, 40))
def test_every_batch_of_a_mixture_has_its_share_of_clean_images(share: float, batch: int) -> None:
    planned = batches(f"mixture:{share}", numbered_suite(200), batch_size=batch)
    for start in range(0, 200, batch):
        cells = planned.cells[start : start + batch]
        assert abs(cells.count(CLEAN) - share * len(cells)) <= 1


def test_several_corruptions_come_in_equal_numbers_and_mixed() -> None:
    planned = batches("iid", numbered_suite(101), severity=2)
    counts = Counter(planned.cells)
    assert set(counts) == {("brightness", 2), ("contrast", 2)}
    assert max(counts.values()) - min(counts.values()) == 1
    assert len(set(planned.cells[:20])) == 2


def test_one_corruption_at_the_last_severity() -> None:
    assert set(batches("iid", numbered_suite(20), corruptions="contrast").cells) == {("contrast", 3)}


def classes_per_batch(name: str) -> float:
    return float(
        np.mean([len(set(labels.tolist())) for _, labels in batches(name, numbered_suite(1000), batch_size=50)])
    )


def test_the_smaller_alpha_the_fewer_classes_share_a_batch() -> None:
    low, middle, high = (classes_per_batch(f"dirichlet:{alpha}") for alpha in (0.01, 0.5, 1000))
    assert low < 4 < middle < high
    assert high == pytest.approx(classes_per_batch("iid"), abs=0.3)


def test_a_gradual_stream_rises_and_falls_for_one_corruption_after_the_other() -> None:
    cells = batches("gradual", numbered_suite(100)).cells
    phases = [cell for place, cell in enumerate(cells) if place == 0 or cell != cells[place - 1]]
    assert phases == [(name, level) for name in ("brightness", "contrast") for level in (1, 2, 3, 2, 1)]
    assert set(Counter(cells).values()) == {10, 20}


def test_a_gradual_stream_rises_to_the_severity_that_is_asked_for() -> None:
    suite = numbered_suite(100, severities=(3, 1, 2))
    cells = batches("gradual", suite, corruptions="contrast", severity=2).cells
    assert list(dict.fromkeys(cells)) == [("contrast", 1), ("contrast", 2)]
    assert cells[0] == cells[-1] == ("contrast", 1)
    assert set(batches("gradual", suite, corruptions="contrast", severity=1).cells) == {("contrast", 1)}


def test_a_suite_with_one_severity_has_streams_too() -> None:
    suite = numbered_suite(10, severities=(None,))
    assert [cell for cell, _ in batches("gradual", suite).cells] == ["brightness"] * 5 + ["contrast"] * 5


@pytest.mark.parametrize("name", ["", "idd", "iid:3", "mixture:1.5", "mixture:x", "dirichlet:0", "dirichlet:inf"])
def test_other_names_are_answered_with_those_that_there_are(name: str) -> None:
    with pytest.raises(InputError, match=r"iid, gradual, mixture:SHARE.*dirichlet:ALPHA"):
        batches(name, numbered_suite(5))


def test_other_mistakes_are_told_at_once() -> None:
    with pytest.raises(InputError, match="not 0"):
        batches("iid", numbered_suite(5), batch_size=0)
    with pytest.raises(InputError, match=r"no 'fog'; it has brightness, contrast"):
        batches("iid", numbered_suite(5), corruptions="fog")
    with pytest.raises(InputError, match="no severity 5"):
        batches("iid", numbered_suite(5), severity=5)
