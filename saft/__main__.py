"""``python -m saft`` is the ``saft`` command."""

from saft.cli.app import main

if __name__ == "__main__":
    main()
