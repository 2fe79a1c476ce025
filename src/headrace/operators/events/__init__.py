"""Detection of complex events: the spec `Detect` and what runs it."""
