"""Exit statuses, and the errors that lead to them."""

from enum import IntEnum


class Status(IntEnum):
    """Exit status of ``tpm-tls-bench``."""

    MEASURED = 0
    INVALID = 1
    USAGE = 2
    UNUSABLE = 3
    LEFT_BEHIND = 4


class BenchError(Exception):
    """One sentence for the user: what is wrong, and the remedy."""

    status = Status.UNUSABLE


class UsageError(BenchError):
    """What was asked for makes no sense."""

    status = Status.USAGE


class LeftBehindError(BenchError):
    """A key of ours could not be removed from the TPM."""

    status = Status.LEFT_BEHIND


class InterruptedRunError(Exception):
    """A signal asked the run to end."""

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by signal {number}")
        self.number = number
