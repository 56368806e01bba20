"""``python -m kspec``: the command line, as ``kspec``."""

from kspec.build.__main__ import main

if __name__ == "__main__":
    main()
