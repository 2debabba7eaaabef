"""How the cost of fit grows with images, sites and processes, and what ImageNet would take: extrapolated."""

import os
import socket
import time

import torch
from benchmarks.harness import Cases, Settings, medians
from benchmarks.networks import images, resnet50
from torch import multiprocessing

import shiftmatch as sm

IMAGES = (16, 32, 64)
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
    seconds = medians(runs | {"plain": lambda: [network(part) for part in x.split(16)]}, settings.runs)
    rate = seconds[f"{max(IMAGES)} images"] / max(IMAGES)
    found = {f"{name}, s": value for name, value in seconds.items() if name != "plain"}
    found |= {"fit/plain": seconds[f"{max(IMAGES)} images"] / seconds["plain"]}
    found |= {"ImageNet's 1,281,167 images, extrapolated, h": IMAGENET * rate / 3600}
    shared = {f"{n} processes, s": _processes(n) for n in PROCESSES}
    return {f"ResNet-50, 224 × 224, {max(IMAGES)} images, {len(places)} sites": found | shared}


def _fit(network: torch.nn.Module, x: torch.Tensor, places: sm.Sites) -> None:
    sm.fit(network, x.split(16), sites=places, progress=False)


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
    sm.fit(network, x[rank::count].split(16), sites=places, across_processes=True, progress=False)
    seconds.append(time.perf_counter() - before)
