"""Items are built when asked for, in the order asked for, one at a time."""

import gc
import pickle
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shiftmatch.errors import InputError
from shiftmatch.utils.sequences import LazySequence


class Item:
    def __init__(self, number: int) -> None:
        self.number = number


def negative(number: int) -> int:
    return -number


@given(st.integers(0, 8), st.slices(8), st.slices(8))
def test_it_is_the_list_of_what_is_built(length: int, first: slice, second: slice) -> None:
    lazy, items = LazySequence(length, str), [str(number) for number in range(length)]
    assert list(lazy) == items
    assert list(lazy[first]) == items[first]
    assert list(lazy[first][second]) == items[first][second]
    assert [lazy[place] for place in range(-length, length)] == 2 * items
    assert list(reversed(lazy)) == items[::-1]


def test_nothing_is_built_before_it_is_asked_for() -> None:
    built: list[int] = []
    lazy = LazySequence(4, built.append)
    part = lazy[1:3]
    assert len(lazy) == 4
    assert len(part) == 2
    assert not built
    part[-1], next(iter(lazy))
    assert built == [2, 0]


def test_iterating_holds_no_item_while_the_next_is_built() -> None:
    alive: weakref.WeakSet[Item] = weakref.WeakSet()

    def build(number: int) -> Item:
        gc.collect()
        assert not alive
        item = Item(number)
        alive.add(item)
        return item

    seen = []
    for item in LazySequence(3, build):
        seen.append(item.number)
        del item
    assert seen == [0, 1, 2]


def test_an_index_outside_is_refused() -> None:
    for place in (3, -4):
        with pytest.raises(IndexError, match="There are 3 items"):
            LazySequence(3, str)[place]
    with pytest.raises(InputError, match="0 items or more"):
        LazySequence(-1, str)


def test_it_can_be_sent_to_another_process() -> None:
    assert list(pickle.loads(pickle.dumps(LazySequence(3, negative)[1:]))) == [-1, -2]
