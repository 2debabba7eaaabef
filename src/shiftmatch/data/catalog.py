"""What is known about each published data set: where it is, what lies in it, and its checksums.

Checksums of downloads are those that the publishers, TensorFlow Datasets or several public loaders give; those of
unpacked files are given where they are published too. Others are recorded at the first download.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from shiftmatch.corruptions import names
from shiftmatch.data.readers import Reader, read_arrays, read_cifar, read_idx, read_matlab, read_pictures
from shiftmatch.errors import InputError


@dataclass(frozen=True)
class Download:
    """A file to fetch and unpack below the data folder, from any of its mirrors."""

    file: str
    checksum: str
    mirrors: tuple[str, ...]
    into: str = "."

    @property
    def urls(self) -> tuple[str, ...]:
        return tuple(f"{mirror}/{self.file}" for mirror in self.mirrors)


@dataclass(frozen=True)
class Published:
    """A data set: for each split the files (below `folder`) that its reader takes."""

    title: str
    page: str
    folder: str
    read: Reader
    splits: Mapping[str, tuple[str, ...]]
    downloads: tuple[Download, ...] = ()
    checksums: Mapping[str, str] = field(default_factory=dict)

    @property
    def files(self) -> tuple[str, ...]:
        """The files of all splits, each once."""
        return tuple(dict.fromkeys(file for files in self.splits.values() for file in files))


def published(name: str) -> Published:
    """The entry of a data set.

    >>> published("cifar10").folder
    'cifar-10-batches-bin'
    """
    if name not in CATALOG:
        raise InputError(f"There is no data set {name!r}; there are {', '.join(CATALOG)}.")
    return CATALOG[name]


_TORONTO = ("https://www.cs.toronto.edu/~kriz",)
_STANFORD = ("http://ufldl.stanford.edu/housenumbers",)
_CIFAR101 = (
    "https://github.com/modestyachts/CIFAR-10.1/raw/master/datasets",
    "https://raw.githubusercontent.com/modestyachts/CIFAR-10.1/master/datasets",
)
_MNIST = ("https://ossci-datasets.s3.amazonaws.com/mnist", "https://storage.googleapis.com/cvdf-datasets/mnist")
_FASHION = (
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
    "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion",
)
_IDX = {
    split: (f"{stem}-images-idx3-ubyte", f"{stem}-labels-idx1-ubyte")
    for split, stem in (("train", "train"), ("test", "t10k"))
}


def _zenodo(record: int) -> tuple[str, ...]:
    return (f"https://zenodo.org/records/{record}/files", f"https://zenodo.org/record/{record}/files")


def _digits_format(title: str, page: str, folder: str, mirrors: tuple[str, ...], *md5: tuple[str, str]) -> Published:
    """A set in MNIST's four files; of each the checksums, packed and unpacked."""
    files = dict(zip((file for split in _IDX.values() for file in split), md5, strict=True))
    return Published(
        title,
        page,
        folder,
        read_idx,
        _IDX,
        tuple(Download(f"{file}.gz", f"md5:{packed}", mirrors, folder) for file, (packed, _) in files.items()),
        {file: f"md5:{unpacked}" for file, (_, unpacked) in files.items()},
    )


def _new_test_set(version: str, title: str, *sha256: str) -> Published:
    """CIFAR-10.1: an array of images and one of labels, with their checksums."""
    files = (f"cifar10.1_{version}_data.npy", f"cifar10.1_{version}_labels.npy")
    return Published(
        f"CIFAR-10.1 {version}: {title}",
        "https://github.com/modestyachts/CIFAR-10.1",
        "cifar-10.1",
        read_arrays,
        {"test": files},
        tuple(
            Download(file, f"sha256:{digest}", _CIFAR101, "cifar-10.1")
            for file, digest in zip(files, sha256, strict=True)
        ),
    )


CATALOG: Mapping[str, Published] = {
    "mnist": _digits_format(
        "MNIST: handwritten digits, 28 × 28 grey",
        "http://yann.lecun.com/exdb/mnist",
        "mnist",
        _MNIST,
        ("f68b3c2dcbeaaa9fbdd348bbdeb94873", "6bbc9ace898e44ae57da46a324031adb"),
        ("d53e105ee54ea40749a09fcbcd1e9432", "a25bea736e30d166cdddb491f175f624"),
        ("9fb629c4189551a2d022fa330f9573f3", "2646ac647ad5339dbf082846283269ea"),
        ("ec29112dd5afa0611ce80d1b7f02629c", "27ae3e4e09519cfbb04c329615203637"),
    ),
    "fashion-mnist": _digits_format(
        "Fashion-MNIST: clothing, 28 × 28 grey",
        "https://github.com/zalandoresearch/fashion-mnist",
        "fashion-mnist",
        _FASHION,
        ("8d4fb7e6c68d591d4c3dfef9ec88bf0d", "f4a8712d7a061bf5bd6d2ca38dc4d50a"),
        ("25c81989df183df01b3e8a0aad5dffbe", "9018921c3c673c538a1fc5bad174d6f9"),
        ("bef4ecab320f06d8554ea6380940ec79", "8181f5470baa50b63fa0f6fddb340f0a"),
        ("bb300cfdad3c16e7a12a480ee83cd310", "15d484375f8d13e6eb1aabb0c3f46965"),
    ),
    "mnist-c": Published(
        title="MNIST-C: 15 corruptions of the MNIST test set",
        page="https://zenodo.org/records/3239543",
        folder="mnist_c",
        read=read_arrays,
        splits={name: (f"{name}/test_images.npy", f"{name}/test_labels.npy") for name in names("mnist-c")},
        downloads=(
            Download(
                "mnist_c.zip",
                "sha256:af9ee8c6a815870c7fdde5af84c7bf8db0bcfa1f41056db83871037fba70e493",
                _zenodo(3239543),
            ),
        ),
    ),
    "cifar10": Published(
        title="CIFAR-10: 10 kinds of objects, 32 × 32 colour (binary version)",
        page="https://www.cs.toronto.edu/~kriz/cifar.html",
        folder="cifar-10-batches-bin",
        read=read_cifar,
        splits={"train": tuple(f"data_batch_{i}.bin" for i in range(1, 6)), "test": ("test_batch.bin",)},
        downloads=(Download("cifar-10-binary.tar.gz", "md5:c32a1d4ab5d03f1284b67883e8d87530", _TORONTO),),
        checksums={
            "data_batch_1.bin": "md5:5dd7e06a14cb22eb9f671a540d1b7c25",
            "data_batch_2.bin": "md5:5ea93a67294ea407fff1d09f752e9692",
            "data_batch_3.bin": "md5:942cd6a4bcdd0dd3c604fbe906cb4421",
            "data_batch_4.bin": "md5:ae636b3ba5c66a11e91e8cb52e771fcb",
            "data_batch_5.bin": "md5:53f37980c15c3d472c316c40844f3f0d",
            "test_batch.bin": "md5:803d5f7f4d78ea53de84dbe85f74fb6d",
        },
    ),
    "cifar100": Published(
        title="CIFAR-100: 100 kinds of objects, 32 × 32 colour (binary version)",
        page="https://www.cs.toronto.edu/~kriz/cifar.html",
        folder="cifar-100-binary",
        read=partial(read_cifar, label_bytes=2, classes=100),
        splits={"train": ("train.bin",), "test": ("test.bin",)},
        downloads=(Download("cifar-100-binary.tar.gz", "md5:03b5dce01913d631647c71ecec9e9cb8", _TORONTO),),
    ),
    "cifar10-c": Published(
        title="CIFAR-10-C: 19 corruptions × 5 severities of the CIFAR-10 test set",
        page="https://zenodo.org/records/2535967",
        folder="CIFAR-10-C",
        read=read_arrays,
        splits={name: (f"{name}.npy", "labels.npy") for name in names("cifar10-c")},
        downloads=(
            Download(
                "CIFAR-10-C.tar",
                "sha256:c72763e101c723b7c507b96205f7e938912a5d587376173b825850cf3cb876a7",
                _zenodo(2535967),
            ),
        ),
    ),
    "cifar10.1-v4": _new_test_set(
        "v4",
        "2,021 new test images for CIFAR-10",
        "5aaedc268df8f4cffca2ac0cf9e608ae1897a8cddb630c7a850a2ea8f6558e75",
        "1f9544300ded199539b6662364ce7fe6c2e1ea9f87408f06db4b1a6184cffb18",
    ),
    "cifar10.1-v6": _new_test_set(
        "v6",
        "2,000 new test images for CIFAR-10, balanced",
        "2997188e5816f5bd545dc77771b6227828c28146049fcecf3fa10775474cacc6",
        "ae40beda001693674edc94d925ee8268cfe68905f8f9aff800c8dcdfcd6c9448",
    ),
    "svhn": Published(
        title="SVHN: house numbers, 32 × 32 colour",
        page="http://ufldl.stanford.edu/housenumbers",
        folder="svhn",
        read=read_matlab,
        splits={"train": ("train_32x32.mat",), "test": ("test_32x32.mat",)},
        downloads=(
            Download("train_32x32.mat", "md5:e26dedcc434d2e4c54c9b2d4a06d8373", _STANFORD, into="svhn"),
            Download("test_32x32.mat", "md5:eb5a983be6a315427106f1b164d9cef3", _STANFORD, into="svhn"),
        ),
    ),
    "imagenet": Published(
        title="ImageNet (ILSVRC 2012): 1,000 kinds of objects, class folders",
        page="https://www.image-net.org/download.php",
        folder="imagenet",
        read=read_pictures,
        splits={"train": ("train",), "test": ("val",)},
    ),
    "imagenet-c": Published(
        title="ImageNet-C: 19 corruptions × 5 severities of the ImageNet validation set",
        page="https://zenodo.org/records/2235448",
        folder="ImageNet-C",
        read=read_pictures,
        splits={f"{name}/{level}": (f"{name}/{level}",) for name in names("imagenet-c") for level in range(1, 6)},
        downloads=tuple(
            Download(f"{group}.tar", f"md5:{md5}", _zenodo(2235448), into="ImageNet-C")
            for group, md5 in {
                "blur": "2d8e81fdd8e07fef67b9334fa635e45c",
                "digital": "89157860d7b10d5797849337ca2e5c03",
                "noise": "e80562d7f6c3f8834afb1ecf27252745",
                "weather": "33ffea4db4d93fe4a428c40a6ce0c25d",
                "extra": "d492dfba5fc162d8ec2c3cd8ee672984",
            }.items()
        ),
    ),
}
"""Every data set by its name: what it is, where it is published, its files and their checksums."""
