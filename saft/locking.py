"""Locks between processes: whoever works on a folder or a file holds one, and a second is told so at once."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from saft.errors import InputError


@contextmanager
def exclusive(path: Path, refusal: str) -> Iterator[None]:
    """Hold the lock file ``path``; an InputError with this sentence if somebody else does.

    The same thread may hold it several times. The lock ends with the process, however that ends; the file of one that
    was killed stays and locks nobody out.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(path, is_singleton=True)
    try:
        lock.acquire(blocking=False)
    except Timeout as error:
        raise InputError(refusal) from error
    except OSError as error:
        raise InputError(f"Cannot write {path}: {error.strerror}.") from error
    try:
        yield
    finally:
        if lock.lock_counter == 1:
            path.unlink(missing_ok=True)  # before the release: whoever finds it after that may hold it
        lock.release()
