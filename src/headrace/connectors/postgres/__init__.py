"""POSTGRES: tables of a database as sinks."""
