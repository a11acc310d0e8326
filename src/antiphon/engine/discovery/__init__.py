"""Discovery: the models that providers list themselves, and servers on this machine."""
