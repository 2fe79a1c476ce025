"""Keeping promises while queries run: what is observed, what is decided, and why."""
