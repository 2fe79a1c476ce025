"""The server: one process owns a checkpoint, and everybody else is a client of its HTTP interface."""
