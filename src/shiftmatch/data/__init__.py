"""Data sets in their published formats: fetched, verified, loaded, corrupted."""

from shiftmatch.data.catalog import CATALOG
from shiftmatch.data.inventory import Status, get, inspect, load
from shiftmatch.data.labelled import Gallery, Labelled
from shiftmatch.data.layouts import load_corrupted
from shiftmatch.data.sheet import open_photo, sheet
from shiftmatch.data.writing import write_corrupted
from shiftmatch.utils.files import data_folder

__all__ = [
    "CATALOG",
    "Gallery",
    "Labelled",
    "Status",
    "data_folder",
    "get",
    "inspect",
    "load",
    "load_corrupted",
    "open_photo",
    "sheet",
    "write_corrupted",
]
