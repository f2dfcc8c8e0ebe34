"""Output of the commands: results on standard output, everything else on standard error."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from saft.errors import InputError, InputWarning


def busy(what: str) -> AbstractContextManager[Any]:
    """A spinner on standard error while something takes long; nothing if that is not a terminal."""
    from rich.console import Console

    console = Console(stderr=True)
    return console.status(f"{plain(what)} …") if console.is_terminal else nullcontext()


def show(what: Any) -> None:
    """Print a result."""
    from rich.console import Console

    Console().print(what, soft_wrap=isinstance(what, str), highlight=False)


def say(markup: str) -> None:
    """Print a remark on standard error, so that standard output holds results only."""
    from rich.console import Console

    Console(stderr=True).print(markup, soft_wrap=True, highlight=False)


def plain(message: object) -> str:
    """Text that may contain brackets, safe inside markup."""
    from rich.markup import escape

    return escape(str(message))


def show_warning(message: Warning | str, category: type[Warning], *_place: Any, **_more: Any) -> None:
    if issubclass(category, InputWarning):
        say(f"[bold yellow]Note:[/] {plain(message)}")
    else:
        sys.stderr.write(f"{category.__name__}: {message}\n")


def run_app(app: Callable[[], Any]) -> None:
    """Run a command line; an InputError is printed as one sentence, with exit code 2."""
    warnings.showwarning = show_warning
    try:
        app()
    except InputError as error:
        say(f"[bold red]Error:[/] {plain(error)}")
        sys.exit(2)
