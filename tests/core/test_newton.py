import torch
from randomness import random_spd
from torch.testing import assert_close

from shiftmatch.core.newton import newton_schulz


def test_roots_square_to_the_matrix_and_undo_each_other() -> None:
    matrix = random_spd(4, 33)
    roots = newton_schulz(matrix)
    unit = torch.eye(33, dtype=torch.float64).expand(4, -1, -1)
    assert roots.certain.all()
    assert_close(roots.root @ roots.root, matrix, rtol=1e-8, atol=1e-8)
    assert_close(roots.root @ roots.inverse, unit, rtol=1e-8, atol=1e-8)
    assert torch.equal(roots.inverse, roots.inverse.mT)


def test_what_has_no_root_is_never_certain() -> None:
    good, broken = random_spd(5), random_spd(5)
    broken[0, 0] = float("nan")
    singular = torch.ones(5, 5, dtype=torch.float64)
    indefinite = torch.diag(torch.tensor([1.0, 1.0, 1.0, 1.0, -1.0])).double()
    roots = newton_schulz(torch.stack([good, broken, singular, indefinite, torch.zeros(5, 5)]))
    assert roots.certain.tolist() == [True, False, False, False, False]
