"""What one draw costs in a posterior average, as a ratio to one plain network."""

import torch
from benchmarks.harness import Cases, Settings, medians
from benchmarks.networks import images

import shiftmatch as sm

DRAWS, IMAGES = 10, 1000


@torch.no_grad()
def run(settings: Settings) -> Cases:
    """Average/plain per draw for LeNets, plain and each matched to its own statistics."""
    members = [sm.models.build("lenet").eval() for _ in range(DRAWS)]
    x = images(IMAGES, 1, 28)
    robust = [sm.match(member, sm.fit(member, x, progress=False)) for member in members]
    seconds = medians(
        {
            "one": lambda: members[0](x),
            "plain": lambda: sm.average(members)(x),
            "matched": lambda: sm.average(robust)(x),
        },
        settings.runs,
    )
    each = {f"{name} draw/network": seconds[name] / DRAWS / seconds["one"] for name in ("plain", "matched")}
    return {f"LeNet, {DRAWS} draws, {IMAGES} images": each | {"network, s": seconds["one"]}}
