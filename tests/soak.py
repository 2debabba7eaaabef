"""python -m tests.soak stream|threads [--images 100000] [--minutes 10] [--out FILE]: run for long, watch the memory.

`stream`: single images through one stream, whose noise changes now and then; memory after the first tenth is the bar.
`threads`: eight threads call one matched network; every answer is compared, bit for bit, with that of one thread.
"""

import argparse
import json
import sys
import threading
import time
from pathlib import Path

import torch
from torch import Tensor, nn

import shiftmatch as sm
from shiftmatch.models import Architecture
from shiftmatch.utils.files import save_result

THREADS, BATCHES, SIDE = 8, 16, 28
SAMPLES = 50
"""How often the memory is looked at."""
MAX_GROWTH_MIB = 8.0
"""Memory is flat if it grows by no more than this after the first tenth: the allocator's own tides."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("stream", "threads"))
    parser.add_argument("--images", type=int, default=100_000)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--out", type=Path, help="write the result to this JSON file")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    found = stream(arguments.images) if arguments.what == "stream" else threads(arguments.minutes * 60)
    print(json.dumps(found))
    if arguments.out:
        command = f"python -m tests.soak {arguments.what}"
        size = f" --images {arguments.images}" if arguments.what == "stream" else f" --minutes {arguments.minutes:g}"
        settings = {"network": "lenet, random weights", "side": SIDE}
        save_result(arguments.out, command=command + size, settings=settings, result=found)
    return 0 if found["holds"] else 1


def stream(images: int) -> dict[str, object]:
    """Single images; the level of their noise changes every two thousand."""
    network, statistics, generator = _fitted()
    camera, memory = sm.stream(network, statistics), []
    every = max(1, images // SAMPLES)
    for number in range(images):
        camera(_images(1, generator, noise=(number // 2000) % 4 / 4))
        if (number + 1) % every == 0:
            memory.append(round(resident_mib(), 1))
    growth = max(memory) - max(memory[: max(1, len(memory) // 10)])
    return {
        "images": images,
        "changes": camera.changes,
        "memory_mib": memory,
        "growth_mib": round(growth, 1),
        "holds": growth <= MAX_GROWTH_MIB,
    }


def threads(seconds: float) -> dict[str, object]:
    """Calls until time is up."""
    network, statistics, generator = _fitted()
    robust = sm.match(network, statistics)
    batches = [_images(8 + i, generator, noise=i / BATCHES) for i in range(BATCHES)]
    with torch.no_grad():
        expected = [robust(batch) for batch in batches]
    end, calls, wrong = time.monotonic() + seconds, [0] * THREADS, [0] * THREADS

    def work(index: int) -> None:
        torch.set_num_threads(1)
        while time.monotonic() < end:
            at = (index + calls[index]) % BATCHES
            with torch.no_grad():
                wrong[index] += not torch.equal(robust(batches[at]), expected[at])
            calls[index] += 1

    workers = [threading.Thread(target=work, args=(index,)) for index in range(THREADS)]
    for worker in workers:
        worker.start()
    memory = []
    while any(worker.is_alive() for worker in workers):
        time.sleep(seconds / SAMPLES)
        memory.append(round(resident_mib(), 1))
    growth = max(memory) - max(memory[: max(1, len(memory) // 10)])
    return {
        "seconds": seconds,
        "calls": calls,
        "wrong": sum(wrong),
        "memory_mib": memory,
        "growth_mib": round(growth, 1),
        "holds": not sum(wrong) and all(calls) and growth <= MAX_GROWTH_MIB,
    }


def _fitted() -> tuple[nn.Module, sm.Statistics, torch.Generator]:
    torch.manual_seed(0)
    network, generator = Architecture("lenet", {}).build().eval(), torch.Generator().manual_seed(0)
    return network, sm.fit(network, _images(500, generator, noise=0), progress=False), generator


def _images(count: int, generator: torch.Generator, *, noise: float) -> Tensor:
    smooth = torch.rand(count, 1, SIDE // 4, SIDE // 4, generator=generator)
    images = nn.functional.interpolate(smooth, (SIDE, SIDE), mode="bilinear")
    return images + noise * torch.randn(images.shape, generator=generator)


def resident_mib() -> float:
    """The memory that this process has now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


if __name__ == "__main__":
    sys.exit(main())
