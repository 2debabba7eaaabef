"""How soon one can begin: importing shiftmatch against importing torch, and the demo."""

from benchmarks.harness import Cases, Settings, child, medians

from shiftmatch.demo import embedded

IMPORTS = 5
DEMO = "from shiftmatch.demo.mnist import MnistDemo; MnistDemo().run()"


def run(settings: Settings) -> Cases:
    """Import time as a ratio, each in new processes; seconds of the demo, where its posteriors are installed."""
    seconds = medians(
        {name: lambda name=name: child(f"import {name}", settings) for name in ("torch", "shiftmatch")},
        min(IMPORTS, settings.runs),
    )
    figures = {"shiftmatch/torch": seconds["shiftmatch"] / seconds["torch"], "shiftmatch, s": seconds["shiftmatch"]}
    return {"import": figures} | _demo(settings)


def _demo(settings: Settings) -> Cases:
    needed = embedded.FOLDER / "lenet_gaussian.safetensors"
    if not needed.exists():
        print(f"demo: left out, because {needed.name} is not installed")
        return {}
    taken = medians({"demo": lambda: child(DEMO, settings)}, 1)
    return {"demo": {"s": taken["demo"]}}
