"""Data sets in their published formats: fetched, verified, loaded, corrupted; and images of one's own."""

from shiftmatch.data.catalog import CATALOG
from shiftmatch.data.image_set import ImageSet, open_images
from shiftmatch.data.images import ImageFolder, ImageSource, Labelled, open_image
from shiftmatch.data.inventory import Status, get, inspect, load, load_corrupted
from shiftmatch.data.writing import sheet, write_corrupted
from shiftmatch.utils.files import data_folder

__all__ = [
    "CATALOG",
    "ImageFolder",
    "ImageSet",
    "ImageSource",
    "Labelled",
    "Status",
    "data_folder",
    "get",
    "inspect",
    "load",
    "load_corrupted",
    "open_image",
    "open_images",
    "sheet",
    "write_corrupted",
]
