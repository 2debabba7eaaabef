"""Tables for the terminal."""

from collections.abc import Mapping

from rich.table import Table


def accuracy_table(accuracy: Mapping[str, Mapping[str, float]], *, title: str, last: str) -> Table:
    """Accuracy in % by corruption and method; the best of each row is bold, the row `last` is set apart.

    >>> accuracy_table({"mean": {"plain": 0.5, "matched": 0.75}}, title="digits", last="mean").row_count
    1
    """
    table = Table(title=title)
    table.add_column("corruption", no_wrap=True)
    for method in accuracy[last]:
        table.add_column(method, justify="right")
    for name, row in accuracy.items():
        if name == last:
            table.add_section()
        best = max(row.values())
        cells = (f"[bold]{100 * value:.1f}[/]" if value == best else f"{100 * value:.1f}" for value in row.values())
        table.add_row(name.replace("_", " "), *cells)
    return table
