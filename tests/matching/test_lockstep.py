from collections.abc import Callable

import pytest
import torch

from shiftmatch.matching.lockstep import DivergedError, Lockstep


def test_calls_meet_again_and_again() -> None:
    lockstep = Lockstep()

    def call(number: int) -> list[int]:
        return [lockstep.together(place, number * place, sum) for place in (1, 10, 100)]

    assert lockstep.run([lambda i=i: call(i) for i in (1, 2, 3)]) == [[6, 60, 600]] * 3  # type: ignore[misc]


def test_calls_run_side_by_side() -> None:
    lockstep, order = Lockstep(), []

    def call(name: str) -> None:
        order.append(name)
        lockstep.together("here", None, lambda parts: order.append("all"))
        order.append(name.upper())

    lockstep.run([lambda: call("a"), lambda: call("b")])
    assert order == ["a", "b", "all", "A", "B"]


def test_an_error_in_one_ends_all_and_is_raised() -> None:
    lockstep, ended = Lockstep(), []

    def waits() -> None:
        try:
            lockstep.together("here", None, len)
        finally:
            ended.append("waits")

    def fails() -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        lockstep.run([waits, fails])
    assert ended == ["waits"]


def test_an_error_in_the_answer_comes_up_through_a_call() -> None:
    lockstep = Lockstep()

    def call() -> None:
        try:
            lockstep.together("here", 0, lambda parts: 1 // sum(parts))
        except ZeroDivisionError:
            raise ValueError("at here") from None

    with pytest.raises(ValueError, match="at here"):
        lockstep.run([call, call])


@pytest.mark.parametrize("other", [lambda lockstep: lockstep.together("there", None, len), lambda lockstep: None])
def test_calls_that_part_are_noticed(other: Callable[[Lockstep], object]) -> None:
    lockstep = Lockstep()
    with pytest.raises(DivergedError):
        lockstep.run([lambda: lockstep.together("here", None, len), lambda: other(lockstep)])


def test_a_mode_that_would_reach_other_calls_is_noticed() -> None:
    with torch.no_grad():
        lockstep = Lockstep()

        def call() -> object:
            with torch.enable_grad():
                return lockstep.together("here", None, len)

        with pytest.raises(DivergedError):
            lockstep.run([call, call])
        assert not torch.is_grad_enabled()
