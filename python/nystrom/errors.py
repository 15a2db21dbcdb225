"""The exceptions of nystrom. Their messages are the program's."""


class InputError(ValueError):
    """A wrong file, option or value."""


class InternalError(RuntimeError):
    """An error of nystrom itself, or a wrong use of nystrom.ops and nystrom.nn."""


class Interrupted(KeyboardInterrupt):
    """A signal stopped the work. What had to be saved is saved."""
