import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from threading import Lock

import numpy as np
import pytest
import torch
import transformers
from evaluated import COUNT, LIMIT, Counted, Scaled, Tiny, methods, tiny_suite
from interrupts import interrupted
from torch import Tensor, nn

import shiftmatch as sm
from shiftmatch.errors import InputError
from shiftmatch.evaluation.evaluate import evaluate
from shiftmatch.evaluation.methods import METHODS, predictor
from shiftmatch.evaluation.scores import Scores
from shiftmatch.evaluation.streams import batches
from shiftmatch.evaluation.suites import Suite
from shiftmatch.matching.average import average
from shiftmatch.metrics import METRICS, accuracy, brier, calibration_error

ALL = tuple(METRICS)


def table(scores: Scores, path: Path) -> tuple[bytes, bytes]:
    scores.save(path)
    return path.read_bytes(), path.with_suffix(".json").read_bytes()


class Always:
    """A predictor as users write them, with an attribute."""

    lock: object

    def __init__(self, kind: int) -> None:
        self.kind = kind

    def __call__(self, x: Tensor) -> Tensor:
        return torch.eye(3)[[self.kind] * len(x)]


def never_called(x: Tensor) -> Tensor:
    raise AssertionError


def test_a_cell_is_a_slow_loop_over_equal_batches() -> None:
    suite, network = tiny_suite(images=110), Tiny()
    scores = evaluate({"net": average([network])}, suite, ["accuracy", brier], batch_size=40, preprocess=Scaled())
    pixels = suite.images("contrast", 5)
    parts = [network(x.float() / 100).softmax(-1) for x in pixels.split([37, 37, 36])]
    expected = {"accuracy": accuracy(torch.cat(parts).detach(), suite.labels)}
    expected["brier"] = brier(torch.cat(parts).detach(), suite.labels)
    cell = scores.where(corruption="contrast", severity=5)
    assert {row.metric: row.value for row in cell} == pytest.approx(expected, abs=1e-7)


def test_rows_are_complete_and_in_order() -> None:
    suite = tiny_suite()
    scores = evaluate({"b": Counted(), "a": Counted()}, suite, ["accuracy", "reliability"], data="tiny net · cifar10-c")
    cells = list(dict.fromkeys((row.corruption, row.severity) for row in scores))
    assert cells == [("clean", None), *suite.cells()]
    assert scores.values("method") == ["b", "a"]
    assert scores.values("data") == ["tiny net · cifar10-c"]
    assert scores.values("seed") == [suite.seed]
    assert "reliability/14/share" in scores.values("metric")
    assert "clean" not in evaluate({"a": Counted()}, suite, include_clean=False).values("corruption")


def test_images_of_a_cell_are_made_once_for_all_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    suite, original, made = tiny_suite(), Suite.images, []

    def images(self: Suite, corruption: str, severity: int, index: Tensor) -> Tensor:
        made.append((corruption, severity))
        return original(self, corruption, severity, index)

    monkeypatch.setattr(Suite, "images", images)
    evaluate({"a": Counted(), "b": Counted()}, suite)
    assert made == list(suite.cells())


def test_a_rerun_computes_nothing_and_gives_the_same_bytes(tmp_path: Path) -> None:
    counted = Counted()
    first = evaluate({"net": counted}, tiny_suite(), ALL, folder=tmp_path / "cells")
    calls = counted.calls
    again = evaluate({"net": counted}, tiny_suite(), ALL, folder=tmp_path / "cells")
    assert counted.calls == calls > 0
    assert table(first, tmp_path / "a.csv") == table(again, tmp_path / "b.csv")


def test_only_what_is_new_is_computed(tmp_path: Path) -> None:
    old, new = Counted(), Counted()
    evaluate({"old": old}, tiny_suite(severities=(1,)), folder=tmp_path)
    calls = old.calls
    evaluate({"old": old, "new": new}, tiny_suite(severities=(1, 5)), folder=tmp_path)
    assert calls == 1 + 2
    assert old.calls == calls + 2
    assert new.calls == 1 + 4


def test_cells_of_other_networks_images_and_settings_are_not_taken(tmp_path: Path) -> None:
    def computed(
        *,
        seed: int = 0,
        images: int = 60,
        pixels: int = 1,
        batch: int = 1000,
        divisor: float = 100,
        net: int = 3,
        metric: str = "brier",
    ) -> int:
        """The number of cells that are computed, not found."""
        before = len(list(tmp_path.iterdir()))
        suite, prepare = tiny_suite(images=images, seed=seed, pixels=pixels), Scaled(divisor)
        evaluate({"net": Tiny(net)}, suite, [metric], batch_size=batch, preprocess=prepare, folder=tmp_path)
        return len(list(tmp_path.iterdir())) - before

    every = 1 + len(list(tiny_suite().cells()))
    assert computed() == every
    others = [{"seed": 1}, {"images": 50}, {"pixels": 2}, {"batch": 7}, {"divisor": 50}, {"net": 4}, {"metric": "ece"}]
    assert [computed(**other) for other in others] == [every] * len(others)  # type: ignore[arg-type]
    assert computed() == 0


@pytest.mark.slow
def test_workers_give_the_same_bytes_as_one(tmp_path: Path) -> None:
    tables = []
    for workers in (1, 2):
        scores = evaluate(methods(), tiny_suite(images=120), ALL, preprocess=Scaled(), workers=workers)
        tables.append(table(scores, tmp_path / "scores.csv"))
    assert tables[0] == tables[1]


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="kills with a signal")
@pytest.mark.parametrize("workers", [1, 2])
def test_a_killed_run_resumes_where_it_was(tmp_path: Path, workers: int) -> None:
    whole = 2 * (1 + len(list(tiny_suite().cells())))
    marks, tests = tmp_path / "count", Path(__file__).parents[1]
    paths = os.pathsep.join([str(Path(sm.__file__).parents[1]), str(tests)])

    def run(limit: int) -> int:
        environment = {**os.environ, "PYTHONPATH": paths, COUNT: str(marks), LIMIT: str(limit)}
        command = [sys.executable, str(tests / "evaluated.py"), str(tmp_path / "rough"), str(workers)]
        return subprocess.run(command, env=environment, check=False).returncode

    assert run(limit=5) == -signal.SIGKILL
    finished = len(list((tmp_path / "rough").glob("*.json")))
    assert 0 < finished < whole
    marks.unlink()
    assert run(limit=whole) == 0
    assert len(marks.read_text()) == whole - finished
    calm = {f"net {seed}": average([Tiny(seed)]) for seed in (1, 2)}
    expected = evaluate(calm, tiny_suite(), ["accuracy", "ece"], preprocess=Scaled())
    assert list(Scores.load(tmp_path / "rough.csv")) == list(expected)


def test_what_learns_begins_anew_in_each_cell() -> None:
    class Learning:
        seen, resets = 0, 0

        def __call__(self, x: Tensor) -> Tensor:
            self.seen += 1
            return torch.eye(2)[[min(self.seen - 1, 1)] * len(x)]

        def reset(self) -> None:
            self.seen, self.resets = 0, self.resets + 1

    suite, learning = tiny_suite(classes=1), Learning()
    scores = evaluate({"learning": learning}, suite, batch_size=30)
    assert {row.value for row in scores} == {0.5}
    assert learning.resets == len(list(suite.cells())) + 1


def test_members_of_an_average_that_learn_begin_anew_too() -> None:
    train = torch.rand(60, 3, 16, 16)
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3))
    suite, camera = tiny_suite(), sm.stream(network.eval(), sm.fit(network, train, progress=False))
    evaluate({"stream": average([camera])}, suite)
    assert camera.images == len(suite)


def test_a_stream_decides_what_comes_when() -> None:
    suite, network = tiny_suite(images=80), average([Tiny()])
    scores = evaluate({"net": network}, suite, ["brier"], stream="mixture:0.5", preprocess=Scaled(), batch_size=80)
    planned = batches("mixture:0.5", suite, batch_size=80, corruptions="contrast", severity=5)
    pixels, labels = next(iter(planned))
    found = scores.where(corruption="contrast", severity=5)[0].value
    assert found == pytest.approx(brier(network(Scaled()(pixels)), labels))


def test_provenance_says_what_was_done_and_names_no_folder(tmp_path: Path) -> None:
    scores = evaluate({"net": Tiny()}, tiny_suite(root=tmp_path), preprocess=Scaled(), note={"command": "mine"})
    record = scores.provenance["evaluation"]
    assert record["settings"]["images"] == 60
    assert record["settings"]["preprocess"] == "Scaled(divisor=100.0)"
    assert record["sources"]["contrast"] == "made from noise test with seed 0"
    assert record["versions"]["shiftmatch"]
    assert record["note"] == {"command": "mine"}
    assert str(tmp_path) not in str(record)


def test_every_number_knows_its_images_and_its_error() -> None:
    suite, network = tiny_suite(images=90), average([Tiny()])
    scores = evaluate({"net": network}, suite, ["accuracy", "brier", "ece", "reliability"], preprocess=Scaled())
    assert {row.n for row in scores} == {90}
    for row in scores:
        assert (row.stderr is None) == row.metric.startswith("reliability/")
        if row.metric == "accuracy":
            assert row.stderr == pytest.approx((row.value * (1 - row.value) / 90) ** 0.5)
            assert scores.correct[row.key].mean() == pytest.approx(row.value)
    assert not evaluate({"net": network}, suite, preprocess=Scaled(), keep_correct=False).correct


def test_correctness_is_in_the_order_of_the_suite_however_images_come() -> None:
    suite, network = tiny_suite(images=80), average([Tiny()])
    in_order, shuffled = (
        evaluate({"net": network}, suite, preprocess=Scaled(), stream=stream, batch_size=20) for stream in (None, "iid")
    )
    assert list(in_order.correct) == list(shuffled.correct)
    for key, right in in_order.correct.items():
        assert np.array_equal(right, shuffled.correct[key])
        assert 0 < right.sum() < 80


def test_instances_that_differ_in_an_attribute_have_cells_of_their_own(tmp_path: Path) -> None:
    found = [evaluate({"net": Always(kind)}, tiny_suite(images=61), folder=tmp_path) for kind in (0, 1)]
    assert [scores.mean()["net", "accuracy"] for scores in found] == pytest.approx([21 / 61, 20 / 61])


def test_networks_matched_to_other_data_have_cells_of_their_own(tmp_path: Path) -> None:
    suite = tiny_suite(images=120)
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(784, 3)).eval()
    files = []
    for scale in (1.0, 3.0):
        train = scale * Scaled()(suite.clean.images[torch.arange(120)])
        matched = sm.match(network, sm.fit(network, train, progress=False))
        evaluate({"net": sm.average([matched])}, suite, preprocess=Scaled(), folder=tmp_path)
        files.append(len(list(tmp_path.iterdir())))
    assert files == [5, 10]


def test_a_method_whose_content_cannot_be_told_is_not_kept(tmp_path: Path) -> None:
    locked = Always(0)
    locked.lock = Lock()
    with pytest.raises(InputError, match=r"^net: The content of lock cannot be told"):
        evaluate({"net": locked}, tiny_suite(), folder=tmp_path)
    record = evaluate({"net": locked}, tiny_suite()).provenance["evaluation"]
    assert record["methods"] == {"net": "not known"}


def test_a_gradual_stream_rises_to_the_severity_of_its_cell() -> None:
    seen: list[float] = []

    def remember(x: Tensor) -> Tensor:
        seen.append(x.std(dim=(1, 2, 3)).min().item())
        return torch.eye(3)[[0] * len(x)]

    suite = tiny_suite(severities=(1, 5))
    evaluate({"net": remember}, suite, stream="gradual", include_clean=False)
    mild, strong = seen[:2]  # contrast is lower at severity 5
    assert strong < 0.5 * mild


def test_with_one_worker_torch_keeps_its_threads(two_threads: None) -> None:
    threads: set[int] = set()

    def remember(x: Tensor) -> Tensor:
        threads.add(torch.get_num_threads())
        return torch.eye(3)[[0] * len(x)]

    evaluate({"net": remember}, tiny_suite())
    assert threads == {2}


def test_outputs_and_inputs_as_transformers_have_them() -> None:
    config = transformers.ViTConfig(
        image_size=16, patch_size=8, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8,
    )  # fmt: skip
    config.num_labels = 3
    network, suite = transformers.ViTForImageClassification(config).eval(), tiny_suite()
    found = evaluate({"net": network}, suite, ["brier"], preprocess=lambda x: {"pixel_values": x / 255})
    p = network(suite.clean.images[torch.arange(60)] / 255).logits.softmax(-1)
    assert found.where(corruption="clean")[0].value == pytest.approx(brier(p.detach(), suite.labels), abs=1e-6)
    plain = evaluate({"net": lambda x: {"logits": network(x).logits}}, suite, ["brier"])
    assert [row.value for row in plain] == pytest.approx([row.value for row in found], abs=1e-6)


def test_inputs_come_on_the_device_that_is_asked_for() -> None:
    devices: set[str] = set()

    def remember(x: Tensor) -> Tensor:
        devices.add(x.device.type)
        return torch.eye(3)[[0] * len(x)]

    evaluate({"net": remember}, tiny_suite(), device="meta")
    assert devices == {"meta"}


def test_mistakes_are_answered_in_words() -> None:
    suite = tiny_suite()
    with pytest.raises(InputError, match="at least one method"):
        evaluate({}, suite)
    with pytest.raises(InputError, match="no metric 'acc'"):
        evaluate({"net": Tiny()}, suite, ["acc"])
    with pytest.raises(InputError, match="Two metrics are called 'partial'"):
        evaluate({"net": Tiny()}, suite, [partial(calibration_error, bins=bins) for bins in (5, 9)])
    with pytest.raises(InputError, match="at least one image, not 0"):
        evaluate({"net": Tiny()}, suite, batch_size=0)
    with pytest.raises(InputError, match="workers must be 1 or more"):
        evaluate({"net": Tiny()}, suite, workers=0)
    with pytest.raises(InputError, match="no stream 'foo'; there are iid"):
        evaluate({"net": never_called}, suite, stream="foo")
    with pytest.raises(InputError, match=r"net: .*got str"):
        evaluate({"net": lambda x: "probably a cat"}, suite)
    with pytest.raises(InputError, match=r"net: .*Logits become"):
        evaluate({"net": lambda x: 5 * torch.ones(len(x), 3)}, suite)
    with pytest.raises(InputError, match=r"net: Expected the probabilities of 60 images"):
        evaluate({"net": lambda x: torch.ones(3)}, suite)
    with pytest.raises(InputError, match="form that can be sent"):
        evaluate({"net": lambda x: torch.ones(3)}, suite, workers=2)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # an interrupt inside a callback
def test_an_interrupt_at_any_moment_leaves_nothing_behind(tmp_path: Path) -> None:
    suite, net, train = tiny_suite(images=40, severities=(5,)), Tiny().train(), [torch.rand(40, 3, 16, 16)]
    names = ("plain", "batchnorm", "ShiftMatch: spectrum", "Tent")

    def run(folder: Path | None = None) -> Scores:
        methods = {name: predictor(METHODS[name], [net], train) for name in names}
        return evaluate(methods, suite, ["accuracy"], preprocess=Scaled(), folder=folder, progress=False)

    expected = run()
    interrupted([run, lambda: run(tmp_path)], net, within=0.08)
    for folder in (None, tmp_path):
        assert list(run(folder)) == list(expected)
