"""The listings of SHOW and DESCRIBE."""
