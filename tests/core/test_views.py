import pytest
from hypothesis import given
from hypothesis import strategies as st
from randomness import randn
from torch.testing import assert_close

from shiftmatch.core.covariance import STRUCTURES, ViewCovariance
from shiftmatch.core.views import View

MATRICES = [kind() for kind in STRUCTURES.values() if issubclass(kind, ViewCovariance)]


@pytest.mark.parametrize("structure", MATRICES, ids=str)
@given(shape=st.lists(st.integers(1, 4), min_size=2, max_size=5))
def test_samples_become_the_features_again(structure: ViewCovariance, shape: list[int]) -> None:
    x = randn(*shape).movedim(0, -1).contiguous().movedim(-1, 0)
    for view in structure.views(x.ndim):
        assert_close(view.from_samples(view.to_samples(x), x), x)


def test_a_view_puts_each_axis_in_its_role() -> None:
    x = randn(2, 3, 4, 5)
    rows = View(along=(2,), group=(1,)).to_samples(x)
    assert rows.shape == (3, 4, 1, 10)
    assert_close(rows[1, :, 0, 7], x[1, 1, :, 2])  # sample 7 is column 2 of image 1
    joint = View(along=(3,), columns=(1,)).to_samples(x)
    assert joint.shape == (1, 5, 3, 8)
    assert_close(joint[0, :, 2, 5], x[1, 2, 1])  # sample 5 is row 1 of image 1
