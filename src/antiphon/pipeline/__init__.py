"""Push stages between the machine and the wire; `feed` and `close` are all they have."""
