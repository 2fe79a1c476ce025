"""`python -m headrace` is the same as the command `headrace`."""

from headrace.cli.main import main

main()
