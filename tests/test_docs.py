"""The documentation: its code runs, its links lead somewhere, its reference has every public name, the site builds."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from test_docstrings import THINGS
from tiny_data import small_network, write_data_sets

import shiftmatch as sm

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
TOP = [*PAGES, *(ROOT / name for name in ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
"""Code that is run; what cannot be run here is fenced as `py`."""
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} +(.*?)\s*$", re.MULTILINE)
SLOW = {
    "export.md",
    "evaluation.md",
    "cifar.md",
    "deploy.md",
    "posterior.md",
    "posteriors.md",
    "camera.md",
    "digits.ipynb",
}
NETWORK = """
from torch import nn
def resnet():
    layers = nn.Conv2d(3, 4, 7, 8), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    return nn.Sequential(*layers, nn.Linear(4, 2))
"""


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def code_of(page: Path) -> list[str]:
    if page.suffix == ".ipynb":
        cells = json.loads(page.read_text())["cells"]
        return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    return BLOCK.findall(page.read_text())


WITH_CODE = [page for page in [*PAGES, *sorted(DOCS.rglob("*.ipynb"))] if code_of(page)]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with what the pages speak of: data sets, weights, photographs, a network in nets.py."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "nets", raising=False)
    monkeypatch.setenv("SHIFTMATCH_DATA", str(tmp_path / "data"))
    write_data_sets(tmp_path / "data")
    save_file(sm.models.build("cifar_resnet").state_dict(), "resnet20.safetensors")
    (tmp_path / "nets.py").write_text(NETWORK)
    random = np.random.default_rng(0)
    for folder, count in {"train/cat": 24, "train/dog": 24, "photos": 20}.items():
        (tmp_path / folder).mkdir(parents=True)
        for number in range(count):
            Image.fromarray(random.integers(0, 256, (40, 36, 3), np.uint8)).save(tmp_path / folder / f"{number}.png")
    return tmp_path


def names_in_use() -> dict[str, Any]:
    """What the shorter pages take as given: a network, its training data, images, statistics."""
    model, seeded = small_network(), torch.Generator().manual_seed(0)
    images = torch.rand(200, 3, 32, 32, generator=seeded)
    few = images[:64]
    return {
        "torch": torch,
        "sm": sm,
        "model": model,
        "network": model,
        "generator": seeded,
        "images": few,
        "labels": torch.arange(64) % 10,
        "train_images": images,
        "train_loader": images.split(100),
        "corrupted_images": 0.5 * images[:100],
        "prepare": sm.models.Preprocessing(),
        "stats": (stats := sm.fit(model, images, progress=False)),
        "statistics": stats,
        "__name__": "page",
    }


@pytest.mark.filterwarnings("ignore::shiftmatch.errors.SmallBatchWarning")
@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    "page",
    [pytest.param(page, id=name_of(page), marks=[pytest.mark.slow] * (page.name in SLOW)) for page in WITH_CODE],
)
def test_the_code_of_a_page_runs_from_top_to_bottom(page: Path) -> None:
    shared = names_in_use()
    for number, code in enumerate(code_of(page), start=1):
        exec(compile(code, f"{name_of(page)}, block {number}", "exec"), shared)


def test_pages_with_code_are_found() -> None:
    assert {"README.md", "docs/index.md", "docs/extend.md", "docs/tutorials/digits.ipynb"} <= set(
        map(name_of, WITH_CODE)
    )


@pytest.mark.slow
def test_the_program_of_the_tutorial_runs_on_two_processes(here: Path) -> None:
    (here / "many.py").write_text("\n".join(code_of(DOCS / "tutorials" / "processes.md")))
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*torchrun, "many.py"], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "2 processes, 100 images each" in done.stdout


def anchors_of(page: Path) -> set[str]:
    """The anchors that GitHub and the site give to the headings of a page, which agree on plain words."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    words = (re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in HEADING.findall(text))
    return {re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", heading).strip()) for heading in words}


@pytest.mark.parametrize("page", TOP, ids=name_of)
def test_every_link_leads_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for link in (plain or picture for plain, picture in LINK.findall(text)):
        if link.startswith(("http:", "https:", "mailto:")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / unquote(path)).resolve() if path else page
        assert target.exists(), f"{name_of(page)}: there is no {link}"
        assert ROOT in target.parents, f"{name_of(page)}: {link} leads out of the repository"
        assert not anchor or anchor in anchors_of(target), f"{name_of(page)}: {link} has no such heading"


def test_the_reference_has_every_public_name_once() -> None:
    text = "\n".join(page.read_text() for page in sorted((DOCS / "api").glob("*.md")))
    shown = re.findall(r"^::: (\S+)$", text, re.MULTILINE)
    assert len(shown) == len(set(shown))
    assert set(shown) == set(THINGS)


class Links(HTMLParser):
    """What a page of the site asks for, and the places in it that can be linked to."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.ids: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.ids |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        elif tag in ("script", "img", "link", "iframe"):
            self.fetched += [
                found[name] for name in ("src", "href") if name in found and found.get("rel") != "canonical"
            ]


def read(page: Path) -> Links:
    links = Links()
    links.feed(page.read_text(encoding="utf-8"))
    return links


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    pytest.importorskip("mkdocs", reason="the site is built where `pip install '.[docs]'` was done")
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(build, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    yield folder
    shutil.rmtree(folder)


@pytest.mark.slow
def test_the_site_builds_without_warnings_and_its_links_lead_somewhere(site: Path) -> None:
    pages = {page: read(page) for page in site.rglob("*.html") if page.name != "404.html"}
    assert len(pages) > 25
    for page, found in pages.items():
        for link in found.links + found.fetched:
            if link.startswith(("http:", "https:", "mailto:", "data:")):
                assert link not in found.fetched, f"{page.name} fetches {link}"
                continue
            path, _, anchor = link.partition("#")
            target = (page.parent / unquote(path.partition("?")[0])).resolve() if path else page
            target = target / "index.html" if target.is_dir() else target
            assert target.exists(), f"{page.name}: {link}"
            assert not anchor or target.suffix != ".html" or unquote(anchor) in pages[target].ids, (
                f"{page.name}: {link}"
            )


@pytest.mark.slow
def test_the_reference_shows_argument_lists_and_examples(site: Path) -> None:
    text = (site / "api" / "index.html").read_text()
    assert "strength" in text
    assert "Parameters" in text
    assert '>torch</span><span class="o">.</span><span class="n">allclose<' in text  # an example, as coloured code
    assert "<blockquote>" not in text
