"""The exceptions of nystrom. Their messages are the program's, in the words of Python."""


class InputError(ValueError):
    """A wrong file, option or value."""


class InternalError(RuntimeError):
    """An error of nystrom itself, or a wrong use of nystrom.ops and nystrom.nn."""


class Interrupted(KeyboardInterrupt):
    """A signal stopped the work. What had to be saved is saved."""


_option = (
    # A path at the beginning, quoted values, whole commands.
    r"(?P<kept>\A\.{0,2}/[^:\n]*(?=:)|'[^'\n]*'|nystrom [a-z]+ (?!--help)[^,;()\n]*)"
    r"|nystrom (?P<help>[a-z]+) --help"
    r"|(?<![\w./-])--set (?P<section>\w+)(?:\.(?P<key>[\w.]+)="
    r'(?P<value>"(?:[^"\\]|\\.)*"|\[[^\]\n]*\]|\{(?:[^{}\n]|\{[^{}\n]*\})*\}'
    r"|[^\s;,)]*[^\s;,):]))?"
    r"|(?<![\w./-])--(?P<flag>[a-z][a-z-]*)(?: [A-Z]+\b)?"
)
_constants = {"true": "True", "false": "False", "null": "None"}
_renamed = {"pair": "pairs", "choice": "choices", "batch": "batch_size"}


def in_words_of_python(message: str) -> str:
    """A message of the program without its command line: top_k for --top-k, and
    data={'sequence_length': 128} for --set data.sequence_length=128."""

    import re

    def literal(value: str) -> str:
        if value in _constants:
            return _constants[value]
        written = value[0] in '"[{' or re.fullmatch(r"[-+]?[\d.]+(e[-+]?\d+)?", value)
        return value if written else repr(value)

    def reworded(match: "re.Match[str]") -> str:
        if match["kept"]:
            return match["kept"]
        if match["help"]:
            return f"help(nystrom.{match['help']})"
        if match["section"]:
            *inner, key = (match["key"] or "").split(".")
            if not key:
                return match["section"]
            value = f"{{{key!r}: {literal(match['value'])}}}"
            for each in reversed(inner):
                value = f"{{{each!r}: {value}}}"
            return f"{match['section']}={value}"
        name = match["flag"].replace("-", "_")
        return _renamed.get(name, name)

    return re.sub(_option, reworded, message) if "--" in message else message
