import re
from collections.abc import Callable
from importlib.resources import files

import numpy as np
import pytest
import torch
from made_scores import METHODS, everything, table
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from torch import nn

import shiftmatch as sm
from shiftmatch.errors import InputError
from shiftmatch.evaluation.scores import Scores
from shiftmatch.metrics.uncertainty import wilson_interval
from shiftmatch.report import figures

KINDS = (
    figures.severity_curves,
    figures.severity_panels,
    figures.mean_bars,
    figures.heat_map,
    figures.gain_bars,
    figures.reliability_diagram,
    figures.layer_shift,
)


@pytest.mark.parametrize("plot", KINDS)
@pytest.mark.parametrize("severities", [(1, 3, 5), (5,), (None,)])
def test_every_kind_draws_any_severities(plot: Callable[[Scores], Figure], severities: tuple[int | None, ...]) -> None:
    figure = plot(everything(severities=severities, n=100 if severities == (5,) else None))
    FigureCanvasAgg(figure).draw()  # type: ignore[no-untyped-call]  # its own canvas draws nothing
    assert any(axes.has_data() for axes in figure.axes)


@pytest.mark.parametrize("plot", [figures.severity_curves, figures.heat_map, figures.mean_bars])
def test_one_method_is_enough_for_plots_that_do_not_compare(plot: Callable[[Scores], Figure]) -> None:
    figure = plot(table({"mine: $x^$": {"fog": 0.5}}))
    FigureCanvasAgg(figure).draw()  # type: ignore[no-untyped-call]  # its own canvas draws nothing
    texts = [text.get_text() for text in figure.findobj(Text)]
    assert r"mine: \$x^\$" in texts, "a name is not taken for a formula"


def test_curves_have_the_means_of_the_scores() -> None:
    scores = everything()
    lines = {str(line.get_label()): line for line in figures.severity_curves(scores).axes[0].get_lines()}
    assert set(lines) == set(METHODS)
    own = [row.value for row in scores.where(method="plain", severity=5, metric="accuracy")]
    assert list(lines["plain"].get_xdata()) == [0, 1, 3, 5]  # type: ignore[arg-type]
    assert list(lines["plain"].get_ydata())[-1] == pytest.approx(100 * sum(own) / len(own))  # type: ignore[arg-type]


def test_panels_without_a_corruption_are_not_shown() -> None:
    axes = figures.severity_panels(everything().where(corruption=["clean", "fog"])).axes
    assert [each.get_visible() for each in axes] == [True, False, False]


def test_bars_are_gains_and_losses_have_another_colour() -> None:
    figure = figures.gain_bars(table({"plain": {"fog": 0.5, "snow": 0.5}, "ShiftMatch": {"fog": 0.75, "snow": 0.25}}))
    bars = {round(bar.get_width()): bar.get_facecolor() for bar in figure.axes[0].patches}  # type: ignore[attr-defined]
    assert set(bars) == {25, -25}
    assert len(set(bars.values())) == 2


def test_curves_have_bands_and_bars_have_whiskers_where_intervals_are_known() -> None:
    for n in (None, 100):
        scores = everything(n=n)
        bands = figures.severity_curves(scores).axes[0].collections
        areas = [path for band in bands for path in band.get_paths() if np.size(path.vertices)]
        assert len(areas) == (len(METHODS) if n else 0)
        for plot in (figures.gain_bars, figures.mean_bars):
            (bars,) = plot(scores).axes[0].containers[-1:]
            assert (bars.errorbar is not None) == bool(n)  # type: ignore[attr-defined]
        cells = [text.get_text() for text in figures.heat_map(scores).axes[0].texts]
        assert all("±" in cell for cell in cells) == bool(n)


def test_a_band_is_the_interval() -> None:
    figure = figures.severity_curves(everything(n=100).where(method="plain", metric="accuracy"))
    heights = np.asarray(figure.axes[0].collections[0].get_paths()[0].vertices)[:, 1]
    low, high = wilson_interval(90, 100)
    assert min(abs(heights - 100 * low)) < 1e-9
    assert min(abs(heights - 100 * high)) < 1e-9


def test_the_bar_of_the_method_has_a_colour_of_its_own() -> None:
    axes = figures.mean_bars(everything(), method="other").axes[0]
    names = [label.get_text() for label in axes.get_yticklabels()]
    colours = {name: bar.get_facecolor() for name, bar in zip(names, axes.patches, strict=True)}
    assert colours["plain"] == colours["ShiftMatch"] != colours["other"]


def test_methods_keep_apart_by_colour_shape_and_dashes() -> None:
    methods = ["plain", "ShiftMatch", *map(str, range(12))]
    kinds = figures.styles_of(methods, "plain", "ShiftMatch").values()
    assert len({tuple(kind.values()) for kind in kinds}) == len(methods)


def test_the_colours_are_those_of_the_page() -> None:
    style = (files("shiftmatch.report") / "templates" / "style.css").read_text(encoding="utf-8")
    assert tuple(re.findall(r"--c\d: light-dark\((#\w+)", style)) == figures.COLOURS
    for name, colour in (("ink", figures.INK), ("soft", figures.SOFT), ("line", figures.LINE), ("loss", figures.LOSS)):
        assert f"--{name}: light-dark({colour}," in style


def test_the_worst_cells_have_frames() -> None:
    assert len(figures.heat_map(everything()).axes[0].patches) == len(METHODS)


def test_what_cannot_be_drawn_is_an_error_that_says_what_to_do() -> None:
    two = everything() + everything(data="other")
    with pytest.raises(InputError, match=r"scores\.where\(data="):
        figures.heat_map(two)
    with pytest.raises(InputError, match="no metric 'brier'; they have accuracy"):
        figures.severity_curves(everything(), metric="brier")
    with pytest.raises(InputError, match="name two of them"):
        figures.gain_bars(everything(), method="nobody")
    with pytest.raises(InputError, match="no reliability curves"):
        figures.reliability_diagram(table({"plain": {"fog": 0.5}}))
    with pytest.raises(InputError, match="no shifts"):
        figures.layer_shift(table({"plain": {"fog": 0.5}}))


def test_features_without_rows_and_columns_have_no_spectra_to_draw() -> None:
    net = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))
    x = torch.randn(300, 6, generator=torch.Generator().manual_seed(0))
    found = sm.diagnose(net, sm.fit(net, x[:200], progress=False), x[200:])
    with pytest.raises(InputError, match="No site of this diagnosis has a spectrum"):
        figures.spectra(found)
