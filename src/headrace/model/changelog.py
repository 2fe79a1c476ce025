"""What the changes of a changelog are called."""

#: A new row, the old and the new row of a change, and the last row of a key.
INSERT, BEFORE, AFTER, DELETE = "insert", "update_before", "update_after", "delete"
#: Those that take a row back.
REMOVALS = (BEFORE, DELETE)
#: The column that says which of them a row is.
CHANGE = "change"
