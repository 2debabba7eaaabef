"""How the cost of fit grows with images, sites and processes, and what ImageNet would take: extrapolated."""

import os
import socket
import time
from math import prod

import torch
from benchmarks.harness import Cases, Settings, medians
from benchmarks.networks import images, resnet50
from torch import multiprocessing
from torch.utils.flop_counter import FlopCounterMode

import shiftmatch as sm

IMAGES = (8, 16, 32)
BATCH = 8
PROCESSES = (1, 2)
IMAGENET = 1_281_167


@torch.no_grad()
def run(settings: Settings) -> Cases:
    """Seconds of ResNet-50 on 224 × 224 images; processes have one thread each and share the same images."""
    network, x = resnet50(), images(max(IMAGES), 3, 224)
    places = sm.sites(network, x[:2])
    some = {len(places[::part]): places[::part] for part in (4, 2, 1)}
    runs = {f"{n} images": (lambda n=n: _fit(network, x[:n], places)) for n in IMAGES}
    runs |= {f"{n} sites": (lambda chosen=chosen: _fit(network, x, chosen)) for n, chosen in some.items()}
    seconds = medians(runs | {"plain": lambda: [network(part) for part in x.split(BATCH)]}, settings.runs)
    all_images = seconds[f"{max(IMAGES)} images"]
    found = {f"{name}, s": value for name, value in seconds.items()}
    found |= {"fit/plain": all_images / seconds["plain"]}
    found |= {"ImageNet's 1,281,167 images, extrapolated, h": IMAGENET * all_images / max(IMAGES) / 3600}
    shared = {f"{n} processes, s": _processes(n) for n in PROCESSES}
    return {
        f"ResNet-50, 224 × 224, {max(IMAGES)} images, {len(places)} sites": found | shared | _work_of(network, places)
    }


def _work_of(network: torch.nn.Module, places: sm.Sites) -> dict[str, float]:
    """What an image takes on any machine, and what processes exchange, counted rather than timed."""
    with FlopCounterMode(display=False) as counter:
        network(images(1, 3, 224))
    shapes = [site.layout.spaces(site.shape)[0] for site in places]
    features = [prod(site.shape) for site in places]
    transform = sum(2 * n * sum(space) for n, space in zip(features, shapes, strict=True))
    return {
        "plain, GFLOP per image": counter.get_total_flops() / 1e9,
        "one cosine transform at every site, GFLOP per image": transform / 1e9,
        "features at all sites, MB per image": 4 * sum(features) / 1e6,
        "exchanged at the end of fit, MB": 8 * 2 * sum(features) / 1e6,
    }


def _fit(network: torch.nn.Module, x: torch.Tensor, places: sm.Sites) -> None:
    sm.fit(network, x.split(BATCH), sites=places, progress=False)


def _processes(count: int) -> float:
    with socket.socket() as found, multiprocessing.Manager() as manager:
        found.bind(("127.0.0.1", 0))
        port, seconds = found.getsockname()[1], manager.list()
        found.close()
        multiprocessing.spawn(_work, (count, port, seconds), nprocs=count)
        return max(seconds)


def _work(rank: int, count: int, port: int, seconds: list[float]) -> None:
    torch.set_num_threads(1)
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    sm.start_processes()
    network, x = resnet50(), images(max(IMAGES), 3, 224)
    places = sm.sites(network, x[:2])
    torch.distributed.barrier()
    before = time.perf_counter()
    sm.fit(network, x[rank::count].split(BATCH), sites=places, across_processes=True, progress=False)
    seconds.append(time.perf_counter() - before)
