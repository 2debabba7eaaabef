"""What can go wrong, as a few kinds that callers may want to tell apart.

Every message says what was expected, what came, and what to do next.
"""


class ShiftMatchError(Exception):
    """Base of every error that shiftmatch raises on purpose."""


class InputError(ShiftMatchError, ValueError):
    """An argument has the wrong type, shape, range or name."""


class UnhashableError(InputError):
    """The content of something cannot be told, so a result that depends on it cannot be kept."""


class NonFiniteError(ShiftMatchError, ValueError):
    """Features hold a NaN or an infinity, from which no statistics can be measured."""


class BatchTooSmallError(ShiftMatchError, ValueError):
    """Too few images to measure statistics from."""


class SiteError(ShiftMatchError, LookupError):
    """A site was asked for that the network does not have."""


class StatisticsMismatchError(ShiftMatchError, ValueError):
    """Statistics and network, or two sets of statistics, do not belong together."""


class FileFormatError(ShiftMatchError, ValueError):
    """A file is damaged, of another kind, or written by a newer version."""


class ExportError(ShiftMatchError, RuntimeError):
    """A network cannot be written as a graph."""


class ProcessError(ShiftMatchError, RuntimeError):
    """One of several processes has died."""


class DataNotFoundError(ShiftMatchError, FileNotFoundError):
    """A data set is not on this machine and could not be downloaded."""


class SmallBatchWarning(UserWarning):
    """A batch is so small that matching it, without a prior, may do harm."""


class OtherSizeWarning(UserWarning):
    """Images have another size than those that the statistics were measured on."""
