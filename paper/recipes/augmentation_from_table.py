"""Figure 9 for single networks, from the files of README's table, which hold the same cells at severity 5.

    python -m paper.recipes.augmentation_from_table

The whole of it, with the ensemble of both networks and all severities, is `python -m paper augmentation`, for which two
cores need hours.
"""

import json

from paper.registry import EXPERIMENTS
from paper.run import RESULTS, SUFFIXES

from shiftmatch.evaluation.scores import Scores
from shiftmatch.report.figures import save_figure

NAME = "augmentation"
NETWORKS = ("resnet20", "resnet32")


def collected() -> Scores:
    """Every row under the name of its network."""
    files = {network: Scores.load(RESULTS / f"cifar10c-{network}.csv") for network in NETWORKS}
    rows, correct = [], {}
    for network, scores in files.items():
        for row in scores:
            named = row._replace(data=f"{network} · {row.data}")
            rows.append(named)
            if row.key in scores.correct:
                correct[named.key] = scores.correct[row.key]
    return Scores(rows, {"from": [f"cifar10c-{network}.csv" for network in files]}, correct)


def main() -> None:
    entry, scores = EXPERIMENTS[NAME], collected()
    experiment = entry.sizes["small"]
    claims = experiment.compare(scores)
    record = {"experiment": NAME, "place": entry.place, "command": "python -m paper.recipes.augmentation_from_table"}
    kept = record | dict(scores.provenance) | {"claims": [claim._asdict() for claim in claims]}
    Scores(scores.rows, kept, scores.correct).save(RESULTS / f"{NAME}.csv")
    for key, figure in experiment.plot(scores).items():
        for suffix in SUFFIXES:
            save_figure(figure, RESULTS / f"{NAME}.{key}{suffix}")
    print(json.dumps([claim._asdict() for claim in claims], indent=1))


if __name__ == "__main__":
    main()
