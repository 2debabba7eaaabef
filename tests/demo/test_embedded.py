"""What ships with the package is as good as its result files say, and those say enough."""

import json
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import pytest
import torch
from shared_data import needs_data

from shiftmatch.data import load
from shiftmatch.demo import embedded
from shiftmatch.errors import InputError
from shiftmatch.matching.average import average
from shiftmatch.samplers.posterior import Posterior

with as_file(files("shiftmatch") / "demo" / "embedded") as folder:
    EMBEDDED = Path(folder)
POSTERIORS = ["gaussian", "empcov"]


def result(name: str) -> Any:
    return json.loads((EMBEDDED / f"lenet_{name}.json").read_text())


@pytest.mark.parametrize("name", POSTERIORS)
def test_chains_have_converged(name: str) -> None:
    diagnostics = result(name)["diagnostics"]
    assert len(diagnostics["chains"]) >= 2
    assert sum(diagnostics["chains"]) >= 20
    virial = diagnostics["virial"]  # E[θ·∇U] is the number of parameters where chains have arrived
    assert abs(virial["mean"] - virial["dimension"]) < 3 * virial["stderr"]
    assert diagnostics["acceptance"] > 0.6  # HMC is most efficient at about 0.65
    assert diagnostics["rhat_median"] < 1.25  # of ten draws in each chain, some of them repeated
    assert diagnostics["distinct_draws"] >= 14
    assert result(name)["test_accuracy"] > 0.95


@needs_data("mnist")
@pytest.mark.parametrize("name", [*POSTERIORS, "ensemble"])
def test_the_average_predicts_as_well_as_stated(name: str) -> None:
    digits = load("mnist", "test", limit=1000)
    images = (digits.images[torch.arange(1000)] / 255 - 0.1307) / 0.3081
    predict = average(Posterior.load(EMBEDDED / f"lenet_{name}.safetensors"))
    accuracy = (predict(images).argmax(-1) == digits.labels).double().mean().item()
    assert accuracy == pytest.approx(result(name)["test_accuracy"], abs=0.02)


def test_everything_embedded_is_small() -> None:
    assert sum(file.stat().st_size for file in EMBEDDED.iterdir()) < 12_000_000


def test_what_is_not_in_the_package_is_named_with_what_is() -> None:
    with pytest.raises(InputError, match=r"no posterior 'laplace'; it has .*gaussian.*ensemble"):
        embedded.posterior("laplace")
    with pytest.raises(InputError, match=r"no statistics of 'ensemble' with 'Dense'; it has .*Spectrum"):
        embedded.statistics("ensemble", "Dense")
