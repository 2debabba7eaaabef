"""Settings for all tests."""

import torch
from hypothesis import settings

torch.set_num_threads(1)  # the tests run in several processes
settings.register_profile("shiftmatch", deadline=None, derandomize=True)
settings.load_profile("shiftmatch")
