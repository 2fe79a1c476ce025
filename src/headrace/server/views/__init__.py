"""Everything that leaves the server, as frozen structs; nothing else goes out.

Instants are milliseconds since 1970 in UTC, unless a name says otherwise. Names end in their unit (`_ms`, `_us`,
`_bytes`); a `rate` is per second. None means that nothing is known.
"""
