"""Everything Tagsmith raises on purpose.

    TagsmithError
    ├── ConfigError    a setting, recipe or command-line value that cannot be
    ├── DataError      a file or row that cannot be read as the records asked for
    ├── BundleError    a model folder that is missing, incomplete or damaged
    ├── OutputError    a result that cannot be written where it was asked for
    ├── ServiceError   a service that cannot start, or a request that it does not answer
    ├── TrainError     a training run that cannot start, resume or go on
    └── BatchError     a batch job that cannot start, resume or go on

Each message says what was given, what is allowed and what to do.
"""

from __future__ import annotations


class TagsmithError(Exception):
    """The root: catch this to catch all of them."""


class ConfigError(TagsmithError):
    """A setting, recipe or command-line value that cannot be."""


class DataError(TagsmithError):
    """A file or row that cannot be read as the records asked for."""


class BundleError(TagsmithError):
    """A model folder that is missing, incomplete or damaged."""


class OutputError(TagsmithError):
    """A result that cannot be written where it was asked for."""


class ServiceError(TagsmithError):
    """A service that cannot start, or a request that it does not answer."""


class TrainError(TagsmithError):
    """A training run that cannot start, resume or go on."""


class BatchError(TagsmithError):
    """A batch job that cannot start, resume or go on."""
