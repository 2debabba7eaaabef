"""The layout is a ladder: a part imports itself and lower rungs, nothing else."""

import ast
from pathlib import Path

SRC = Path(__file__).parents[1] / "src" / "shiftmatch"
RANK: dict[str, float] = {
    "errors": 0,
    "shapes": 0,
    "files": 0,
    "folders": 0,
    "progress": 0,
    "threads": 0,
    "containers": 0.5,
    "provenance": 0.5,
    "core": 1,
    "metrics": 1,
    "corruptions": 1,
    "models": 1,
    "sites": 2,
    "samplers": 2,
    "data": 2,
    "averaging": 3,
    "members": 3,
    "opening": 3.5,
    "prediction": 3.5,
    "inference": 3.5,
    "embedded": 3.5,
    "benchmark": 4,
    "report": 5,
    "experiments": 6,
    "cli": 7,
}


def part_of(file: Path) -> str:
    return file.relative_to(SRC).parts[0].removesuffix(".py")


def parts_imported_by(file: Path) -> set[str]:
    modules: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: import by the full name"
            modules |= {node.module or ""} | {f"{node.module}.{alias.name}" for alias in node.names}
    parts = {module.split(".")[1] for module in modules if module.startswith("shiftmatch.")}
    return parts & RANK.keys()


def test_imports_point_down_the_ladder() -> None:
    files = [file for file in sorted(SRC.rglob("*.py")) if part_of(file) != "__init__"]
    assert files
    for file in files:
        for imported in parts_imported_by(file):
            assert imported == part_of(file) or RANK[imported] < RANK[part_of(file)], f"{file} imports {imported}"
