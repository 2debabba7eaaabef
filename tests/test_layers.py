"""The layout is a ladder: a part imports itself and lower rungs, nothing else."""

import ast
from pathlib import Path

SRC = Path(__file__).parents[1] / "src" / "shiftmatch"
RANK: dict[str, int] = {
    "errors": -1,
    "shapes": -1,
    "utils": 0,
    "core": 1,
    "metrics": 1,
    "corruptions": 1,
    "models": 1,
    "matching": 2,
    "samplers": 2,
    "data": 2,
    "deploy": 3,
    "evaluation": 4,
    "report": 5,
    "demo": 6,
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
