"""Lets `python -m headrace` and `spark-submit .../headrace/__main__.py` run the command line."""

import sys

# Python puts the folder of a program on its path. This one has modules with names of the standard library.
if __spec__ is None:
    del sys.path[0]

from headrace.cli.main import main

if __name__ == "__main__":
    main()
