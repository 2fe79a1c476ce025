"""Whole applications in SQL with generated data: what `headrace example` runs."""
