"""Rows of a partition that match a row pattern: MATCH_RECOGNIZE."""
