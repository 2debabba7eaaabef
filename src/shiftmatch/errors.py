"""Errors and warnings by kind, so that callers can catch one kind.

Every message says what was expected, what came, and what to do next.
"""

__all__ = [
    "BatchTooSmallError",
    "DataNotFoundError",
    "ExportError",
    "FileFormatError",
    "InputError",
    "NonFiniteError",
    "OtherSizeWarning",
    "ProcessError",
    "ShiftMatchError",
    "SiteError",
    "SmallBatchWarning",
    "StatisticsMismatchError",
    "UnhashableError",
]


class ShiftMatchError(Exception):
    """Base of every error that shiftmatch raises on purpose.

    >>> import shiftmatch as sm
    >>> try:
    ...     sm.corruptions.names("svhn-c")
    ... except ShiftMatchError as error:
    ...     print(type(error).__name__)
    InputError
    """


class InputError(ShiftMatchError, ValueError):
    """An argument has the wrong type, shape, range or name.

    >>> import shiftmatch as sm
    >>> sm.methods.method_named("magic")
    Traceback (most recent call last):
    shiftmatch.errors.InputError: There is no method 'magic'; choose among ...
    """


class UnhashableError(InputError):
    """The content of something cannot be told, so a result that depends on it cannot be kept.

    >>> from threading import Lock
    >>> from shiftmatch.utils.hashing import content_hash
    >>> content_hash(Lock())
    Traceback (most recent call last):
    shiftmatch.errors.UnhashableError: ...
    """


class NonFiniteError(ShiftMatchError, ValueError):
    """Features hold a NaN or an infinity, from which no statistics can be measured.

    >>> import torch, shiftmatch as sm
    >>> sm.fit(torch.nn.Linear(4, 2), torch.full((16, 4), float("nan")), progress=False)
    Traceback (most recent call last):
    shiftmatch.errors.NonFiniteError: ...
    """


class BatchTooSmallError(ShiftMatchError, ValueError):
    """Too few images to measure statistics from.

    >>> import torch, shiftmatch as sm
    >>> sm.fit(torch.nn.Linear(4, 2), torch.randn(1, 4), progress=False)
    Traceback (most recent call last):
    shiftmatch.errors.BatchTooSmallError: ...
    """


class SiteError(ShiftMatchError, LookupError):
    """A site was asked for that the network does not have.

    >>> import torch, shiftmatch as sm
    >>> sm.sites(torch.nn.Linear(4, 2), torch.zeros(2, 4), ["layer9"])
    Traceback (most recent call last):
    shiftmatch.errors.SiteError: ...
    """


class StatisticsMismatchError(ShiftMatchError, ValueError):
    """Statistics and network, or two sets of statistics, do not belong together.

    >>> import torch, shiftmatch as sm
    >>> statistics = sm.fit(torch.nn.Linear(4, 2), torch.randn(16, 4), progress=False)
    >>> sm.match(torch.nn.Linear(4, 2), statistics)
    Traceback (most recent call last):
    shiftmatch.errors.StatisticsMismatchError: ...
    """


class FileFormatError(ShiftMatchError, ValueError):
    """A file is damaged, of another kind, or written by a newer version.

    >>> import tempfile, shiftmatch as sm
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     sm.Statistics.load(file.name)
    Traceback (most recent call last):
    shiftmatch.errors.FileFormatError: ...
    """


class ExportError(ShiftMatchError, RuntimeError):
    """A network cannot be written as a graph.

    >>> import tempfile, torch, shiftmatch as sm
    >>> net = torch.nn.Linear(4, 2)
    >>> dense = sm.match(net, sm.fit(net, torch.randn(16, 4), covariance=sm.Dense(), progress=False))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sm.export(dense, f"{folder}/net.pt2")
    Traceback (most recent call last):
    shiftmatch.errors.ExportError: ...
    """


class ProcessError(ShiftMatchError, RuntimeError):
    """One of several processes has died.

    >>> raise ProcessError("Process 3 has had no heartbeat for 60 s.")
    Traceback (most recent call last):
    shiftmatch.errors.ProcessError: Process 3 has had no heartbeat for 60 s.
    """


class DataNotFoundError(ShiftMatchError, FileNotFoundError):
    """A data set is not on this machine and could not be downloaded.

    >>> import shiftmatch as sm
    >>> sm.data.load("mnist", root="no such folder")
    Traceback (most recent call last):
    shiftmatch.errors.DataNotFoundError: ... does not exist. Fetch it with `shiftmatch data get mnist`, ...
    """


class SmallBatchWarning(UserWarning):
    """A batch is so small that matching it, without a prior, may do harm.

    >>> import warnings, torch, shiftmatch as sm
    >>> net = torch.nn.Linear(4, 2)
    >>> moments = sm.match(net, sm.fit(net, torch.randn(200, 4), covariance=sm.ChannelMoments, progress=False))
    >>> with warnings.catch_warnings(record=True) as told:
    ...     warnings.simplefilter("always")
    ...     _ = moments(torch.randn(20, 4))
    >>> told[0].category.__name__
    'SmallBatchWarning'
    """


class OtherSizeWarning(UserWarning):
    """Images have another size than those that the statistics were measured on.

    >>> import warnings, torch, shiftmatch as sm
    >>> net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
    >>> robust = sm.match(net, sm.fit(net, torch.randn(200, 3, 8, 8), progress=False))
    >>> with warnings.catch_warnings(record=True) as told:
    ...     warnings.simplefilter("always")
    ...     _ = robust(torch.randn(100, 3, 12, 12))
    >>> told[0].category.__name__
    'OtherSizeWarning'
    """
