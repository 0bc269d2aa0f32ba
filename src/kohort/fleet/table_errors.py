"""Errors of the fleet's tables, which the command line knows without Arrow and Delta."""


class TablesBroken(ValueError):
    """The tables cannot be read or written; the text names the table, and gives the reason and what to do."""


class TablesBusy(RuntimeError):
    """Another run was published while this one worked, so that this one counts nowhere."""
