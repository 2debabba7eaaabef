"""Train the FRN ResNet-20 networks of the CIFAR-10 experiments, piece by piece.

    python paper/recipes/cifar_frn.py sgd 0 1    # members of the ensemble; the first is "SGD"
    python paper/recipes/cifar_frn.py sgd 2
    python paper/recipes/cifar_frn.py sgld       # from the first member, which is trained before if it is missing
    python paper/recipes/cifar_frn.py vi
    python paper/recipes/cifar_frn.py test       # how good they are on clean test images

Each takes one core, and the same command goes on after a kill. `shiftmatch reproduce` trains what is missing by itself;
this is for training side by side. The networks are kept below the data folder, in `networks`.
"""

import argparse

import torch
from paper.experiments.networks import ENSEMBLE, SGD, SGLD, VI, Networks, preprocess
from paper.experiments.sizes import NETWORKS

from shiftmatch.data import load
from shiftmatch.matching.average import average
from shiftmatch.utils.progress import track

TEST, PIECE = 2000, 100


def accuracy(networks: Networks, kind: str) -> float:
    test, predict = load("cifar10", "test", limit=TEST), average(networks.posterior(kind))
    parts = track(torch.arange(TEST).split(PIECE), kind)
    predicted = torch.cat([predict(preprocess(test.images[part])).argmax(-1) for part in parts])
    return (predicted == test.labels).double().mean().item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["sgd", "sgld", "vi", "test"])
    parser.add_argument("members", type=int, nargs="*", help="which members of the ensemble; all unless given")
    parser.add_argument("--size", choices=list(NETWORKS), default="small")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    networks = NETWORKS[arguments.size]
    match arguments.what:
        case "sgd":
            for index in arguments.members or range(networks.members):
                networks.member(index)
        case "sgld":
            networks.posterior(SGLD)
        case "vi":
            networks.posterior(VI)
        case "test":
            for kind in (SGD, ENSEMBLE, SGLD, VI):
                print(f"{kind}: {accuracy(networks, kind):.3f} of {TEST} clean test images")


if __name__ == "__main__":
    main()
