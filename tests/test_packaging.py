"""The wheel and the sdist, built offline: what is in them, what is not, and what they ask for."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = (
    "pyproject.toml",
    "setup.py",
    "MANIFEST.in",
    "README.md",
    "LICENSE",
    "NOTICE",
    "CHANGELOG.md",
    "CITATION.cff",
)
MORE = ("CONTRIBUTING.md", "SECURITY.md", "constraints.txt")
BUILT = (".so", ".pyd")
"""The kernel is in a wheel where a compiler was found."""
MAX_WHEEL_BYTES = 15 << 20
BUILD = "import sys, setuptools.build_meta as build; out = sys.argv[1]; build.build_sdist(out); build.build_wheel(out)"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[zipfile.ZipFile, tarfile.TarFile]:
    """Built from a copy: a build leaves folders behind."""
    folder = tmp_path_factory.mktemp("package")
    for name in (*SOURCES, *MORE):
        shutil.copy(ROOT / name, folder)
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", "*.so", "*.pyd")
    shutil.copytree(ROOT / "src", folder / "src", ignore=ignored)
    (folder / "tests").mkdir()
    (folder / "tests" / "test_x.py").touch()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    command = [sys.executable, "-W", "ignore", "-c", BUILD, str(folder / "dist")]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, env=environment)
    (wheel,), (source,) = (list((folder / "dist").glob(pattern)) for pattern in ("*.whl", "*.tar.gz"))
    assert wheel.stat().st_size < MAX_WHEEL_BYTES
    return zipfile.ZipFile(wheel), tarfile.open(source)


def _expected() -> set[str]:
    """Everything in the folder of the package that is no leftover of a run or of a build."""
    files = (path for path in (ROOT / "src").rglob("*") if path.is_file() and path.suffix not in BUILT)
    return {
        path.relative_to(ROOT / "src").as_posix()
        for path in files
        if "__pycache__" not in path.parts and ".egg-info" not in str(path)
    }


def test_the_wheel_holds_the_package_and_nothing_else(built: tuple[zipfile.ZipFile, tarfile.TarFile]) -> None:
    inside = {name for name in built[0].namelist() if ".dist-info/" not in name}
    assert {name for name in inside if not name.endswith(BUILT)} == _expected()
    assert all(name.startswith("shiftmatch/core/_kernels.") for name in inside if name.endswith(BUILT))
    assert {"shiftmatch/py.typed", "shiftmatch/demo/embedded/mnist.npz"} <= inside
    assert any(name.startswith("shiftmatch/report/templates/") for name in inside)


def test_the_sdist_can_be_built_from_and_holds_no_tests(built: tuple[zipfile.ZipFile, tarfile.TarFile]) -> None:
    names = {name.partition("/")[2] for name in built[1].getnames()}
    assert {*SOURCES, *MORE, *(f"src/{name}" for name in _expected())} <= names
    assert not [name for name in names if name.startswith(("tests", "paper", "benchmarks", "docs", "."))]


def test_the_wheel_says_what_it_needs(built: tuple[zipfile.ZipFile, tarfile.TarFile]) -> None:
    (name,) = (name for name in built[0].namelist() if name.endswith("METADATA"))
    metadata = Parser().parsestr(built[0].read(name).decode())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert metadata["Version"] == project["version"]
    assert metadata["Requires-Python"] == project["requires-python"]
    assert set(metadata.get_all("Provides-Extra", [])) == {"dev", "docs", "export", "hub", "report"}
    assert metadata["License-Expression"] == "Apache-2.0"
    (entries,) = (name for name in built[0].namelist() if name.endswith("entry_points.txt"))
    assert "shiftmatch = shiftmatch.cli:main" in built[0].read(entries).decode()


def test_every_package_of_an_extra_is_pinned() -> None:
    """What is tested is what constraints.txt says."""
    pinned = {line.partition("==")[0].lower() for line in (ROOT / "constraints.txt").read_text().splitlines()}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    names = {re.split(r"[><=\[]", one)[0].lower() for one in wanted} - {"shiftmatch"}
    assert names <= pinned | {name.replace("_", "-") for name in pinned} | {name.replace("-", "_") for name in pinned}


IMPORTED_AS = {
    "pillow": ("PIL",),
    "jinja2": ("jinja2", "markupsafe"),
    "onnx": ("onnx", "google"),  # protobuf, which onnx brings
    "onnxruntime": (),  # runs what is exported
}
OF_THE_USER = {"lightning", "pytorch_lightning", "paper"}
"""Lightning is its users' own; the experiments of the paper are in a clone."""


def test_the_package_imports_nothing_that_it_does_not_ask_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *(one for name in ("report", "export", "hub") for one in extras[name])]
    names = [re.split(r"[><=\[]", one)[0].replace("_", "-") for one in wanted]
    allowed = {module for name in names for module in IMPORTED_AS.get(name, (name.replace("-", "_"),))}
    found = {module for path in (ROOT / "src").rglob("*.py") for module in _imported(ast.parse(path.read_text()))}
    assert found - set(sys.stdlib_module_names) - OF_THE_USER == allowed | {"shiftmatch"}


def _imported(tree: ast.Module) -> set[str]:
    found = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    found |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
    return {name.partition(".")[0] for name in found}
