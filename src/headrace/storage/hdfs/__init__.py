"""HDFS over HTTP: how to reach it, how to ask it, and its files as those of an object store."""
