import pytest
import torch
from randomness import maps
from torch import Tensor

from shiftmatch.core import pieces
from shiftmatch.core.covariance import ChannelMoments, Dense, SpatialKronecker
from shiftmatch.core.pieces import Room, channel_groups, laid_out


@pytest.mark.parametrize("shape", [(7, 3), (7, 3, 4), (7, 3, 4, 5), (7, 3, 2, 4, 5)])
def test_pieces_hold_every_image_once_in_order(monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...]) -> None:
    monkeypatch.setattr(pieces, "PIECE_BYTES", 8 * 2 * torch.Size(shape[1:]).numel())
    x = maps(*shape)
    mean = x.mean(0)
    parts = list(laid_out(x, mean, Room()))
    assert [len(part) for part in parts] == [2, 2, 2, 1]
    assert torch.equal(torch.cat(parts), x - mean)


def test_rows_and_columns_of_a_piece_can_be_seen_without_a_copy() -> None:
    (piece,) = laid_out(maps(4, 3, 5, 6), torch.zeros(3, 5, 6), Room())
    for view in SpatialKronecker().views(4):
        assert view.open(piece).data_ptr() == piece.data_ptr()


def test_half_precision_is_handled_in_single(monkeypatch: pytest.MonkeyPatch) -> None:
    for dtype, expected in ((torch.bfloat16, torch.float32), (torch.float32, torch.float32), (torch.float64,) * 2):
        (piece,) = laid_out(torch.zeros(3, 2, dtype=dtype), torch.zeros(2, dtype=expected), Room())
        assert piece.dtype == expected


def test_channels_are_grouped_only_where_they_do_not_mix(monkeypatch: pytest.MonkeyPatch) -> None:
    x = maps(4, 5, 2, 2)
    monkeypatch.setattr(pieces, "GROUP_BYTES", 2 * 4 * 4 * 8)
    for structure in (SpatialKronecker(), ChannelMoments()):
        assert channel_groups(x, structure.views(4)) == [slice(0, 2), slice(2, 4), slice(4, 6)]
    last = maps(4, 11, 2, 2).contiguous(memory_format=torch.channels_last)
    assert channel_groups(last, SpatialKronecker().views(4)) == [slice(0, 8), slice(8, 16)]
    assert channel_groups(x, Dense().views(4)) == [slice(None)]
    assert channel_groups(x.to("meta"), SpatialKronecker().views(4)) == [slice(None)]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_room_has_the_layout_of_the_features(dtype: torch.dtype) -> None:
    x = torch.zeros(4, 3, 5, 6, dtype=dtype)
    forms: list[Tensor] = [x, x.contiguous(memory_format=torch.channels_last), x[:, :2], x[:, :1].expand(4, 3, 5, 6)]
    for form in forms:
        room = Room().like(form)
        assert (room.shape, room.dtype) == (form.shape, form.dtype)
        assert room.stride() == torch.empty_like(form).stride()
        room.fill_(1.0)
        assert room.sum() == room.numel()


def test_spent_features_are_used_again_unless_others_share_their_memory() -> None:
    spent = maps(4, 3, 5, 6)
    assert Room.of_spent(spent).like(spent).data_ptr() == spent.data_ptr()
    assert Room.of_spent(spent[1:]).like(spent[1:]).untyped_storage().data_ptr() != spent.data_ptr()
    for other in (maps(5, 3, 5, 6), maps(1, 3)):
        place = Room.of_spent(spent).like(other)
        assert (place.data_ptr() != spent.data_ptr(), place.untyped_storage().nbytes()) == (True, other.nbytes)
