"""A client of a Headrace server, with the methods of a session; it needs the standard library only."""

from headrace.client.remote import Batch, RemoteSession, connect

__all__ = ["Batch", "RemoteSession", "connect"]
