"""Arrays in, arrays out."""

import numpy as np
import pytest
import torch
from made_matched import corrupted, images, matched, small_network
from torch.testing import assert_close

import shiftmatch as sm
from shiftmatch.deploy.classifier import Classifier
from shiftmatch.errors import InputError


def test_probabilities_of_arrays_are_those_of_tensors_in_batches_of_nearly_equal_size() -> None:
    robust, x = matched(), corrupted(50)
    found = Classifier(robust, batch_size=30).predict_proba(x.double().numpy())
    expected = torch.cat([robust(half).softmax(-1) for half in x.split(25)])
    assert_close(torch.from_numpy(found), expected.detach())
    assert_close(found.sum(1), np.ones(50), rtol=0, atol=1e-5, check_dtype=False)


def test_classes_have_their_names_and_averages_are_classifiers_too() -> None:
    net, x = small_network(), corrupted(40)
    robust = sm.match(net, sm.fit(net, images(100), classes="abcdefghij", progress=False))
    labels = Classifier(robust).predict(x)
    assert set(labels) <= set("abcdefghij")
    assert Classifier(robust).score(x, labels) == 1
    assert Classifier(sm.average([robust, net])).predict(x).dtype.kind == "i"
    assert list(Classifier(net, classes=range(10, 20)).predict(x)) == list(net(x).argmax(1).numpy() + 10)


def test_what_is_no_batch_is_refused() -> None:
    with pytest.raises(InputError, match=r"\(n, …\)"):
        Classifier(matched()).predict(np.zeros(3))
    with pytest.raises(InputError, match="3 names for the 10 classes"):
        Classifier(matched(), classes="abc").predict(corrupted(40))
