"""Tokenizers of models."""

from __future__ import annotations

import operator

from nystrom import _core
from nystrom._options import absolute, require_numbers
from nystrom._texts import described, text_of, texts_of
from nystrom.errors import InputError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Iterable
    from typing import Any, Literal

    from numpy.typing import NDArray

    from nystrom._core import Encoding


class Tokenizer:
    """Converts between text and the ids of tokens. Its copies in other processes are opened from
    the model's folder."""

    def __init__(self, path: str | os.PathLike[str], core: _core.Tokenizer | None = None) -> None:
        """The tokenizer of the folder `path`: of a model, or with the files of a tokenizer."""
        self._path = absolute(path)
        self._core = _core.open_tokenizer(self._path) if core is None else core

    def __call__(
        self,
        texts: str | Iterable[str],
        pairs: str | Iterable[str] | None = None,
        *,
        padding: Literal["longest", "max_length"] | bool = "longest",
        truncation: bool = True,
        max_length: int | None = None,
        parse_special_tokens: bool = False,
    ) -> dict[str, NDArray[Any]]:
        """The inputs of a model for one text or several: input_ids, attention_mask and
        token_type_ids, int64 arrays [texts, tokens].

        `pairs` are second texts. Shorter texts are padded to the longest (padding "longest", True)
        or to max_length. With truncation, tokens beyond max_length are left out, those of a pair's
        longer text first. parse_special_tokens: names such as [MASK] are the tokens themselves.
        """
        if padding not in ("longest", "max_length", True):
            raise InputError(
                f"padding {padding!r}: arrays are padded; expected longest or max_length"
            )
        if padding == "max_length" and max_length is None:
            raise InputError("padding 'max_length' needs max_length")
        if not isinstance(truncation, bool):
            raise InputError(f"truncation {truncation!r}: expected True or False")
        require_numbers(max_length=max_length)
        given = texts_of(texts, "texts")
        second = None if pairs is None else texts_of(pairs, "pairs")
        if second is not None and len(second) != len(given):
            raise InputError(f"pairs: got {len(second)}, expected {len(given)}, one for each text")
        return self._core.encode_batch(
            given, second, max_length, truncation, padding == "max_length", parse_special_tokens
        )

    def encode(
        self, text: str, add_special_tokens: bool = True, parse_special_tokens: bool = False
    ) -> Encoding:
        """One text as ids, with the characters of each token."""
        return self._core.encode(text_of(text, "text"), add_special_tokens, parse_special_tokens)

    def decode(self, ids: Iterable[int], skip_special_tokens: bool = True) -> str:
        """The text of ids."""
        if isinstance(ids, str):
            raise TypeError(f"ids: got {ids!r}, expected numbers of tokens")
        try:
            numbers = [operator.index(each) for each in ids]
        except TypeError:
            raise TypeError(
                f"ids: got {described(ids)}, expected the ids of one text; of several: "
                "[tokenizer.decode(each) for each in ids]"
            ) from None
        return self._core.decode(numbers, skip_special_tokens)

    def id_to_token(self, id: int) -> str:
        """The token of an id, as the vocabulary has it."""
        require_numbers(id=id)
        return self._core.id_to_token(id)

    def token_to_id(self, token: str) -> int | None:
        """The id of a token; None for one that the vocabulary lacks."""
        return self._core.token_to_id(text_of(token, "token"))

    @property
    def vocab_size(self) -> int:
        """The largest id plus 1."""
        return self._core.vocab_size

    def __len__(self) -> int:
        return self._core.vocab_size

    def __reduce__(self) -> tuple[Any, ...]:
        return Tokenizer, (self._path,)

    def __repr__(self) -> str:
        return f"nystrom.Tokenizer({self._path!r}, {self.vocab_size} tokens)"
