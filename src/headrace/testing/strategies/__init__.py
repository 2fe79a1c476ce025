"""Hypothesis strategies for tests; they need the extra `testing`."""

from headrace.extras import install_command, is_installed, missing

if not is_installed("hypothesis"):
    raise ImportError(f"{missing('hypothesis', __name__)}; run: {install_command('testing')}", name="hypothesis")
