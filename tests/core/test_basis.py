import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from randomness import randn
from references import slow
from scipy.fft import dctn
from torch.testing import assert_close

from shiftmatch.core.basis import BASES, dct_matrix


@given(st.integers(1, 40))
def test_the_matrix_is_the_one_in_books(side: int) -> None:
    np.testing.assert_allclose(dct_matrix(side), slow.dct(side), atol=1e-13)


@pytest.mark.parametrize("name", list(BASES))
@given(space=st.lists(st.integers(1, 7), min_size=1, max_size=3))
def test_transforms_are_orthonormal_and_undone(name: str, space: list[int]) -> None:
    basis, x = BASES[name], randn(3, 2, *space)
    matrices = basis.matrices(space)
    z = basis.forward(x, matrices)
    assert_close(basis.inverse(z, matrices, space), x)
    energy = (z.abs().square() * basis.multiplicity(space)).flatten(2).sum(-1)
    assert_close(energy, x.square().flatten(2).sum(-1))


def test_cosines_along_every_axis() -> None:
    x = randn(2, 3, 4, 5, 6)
    z = BASES["dct"].forward(x, BASES["dct"].matrices((4, 5, 6)))
    np.testing.assert_allclose(z, dctn(x.numpy(), axes=(2, 3, 4), norm="ortho"), atol=1e-12)
