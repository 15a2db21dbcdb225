"""A tokenizer.json whose tokens are whole words, for texts of symbols."""

import json

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def write_tokenizer(folder, words):
    """Writes the tokenizer of `words` into `folder`."""
    vocabulary = {word: i for i, word in enumerate([*SPECIAL, *words])}
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    special = {"type_id": 0}
    first = {"SpecialToken": {"id": "[CLS]"} | special}
    end = {"SpecialToken": {"id": "[SEP]"} | special}
    text, second = ({"Sequence": {"id": name, "type_id": i}} for i, name in enumerate("AB"))
    tokenizer = {
        "version": "1.0",
        "added_tokens": [
            {"id": vocabulary[word], "content": word, "special": True} | flags for word in SPECIAL
        ],
        "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [first, text, end],
            "pair": [first, text, end, second, end],
            "special_tokens": {
                word: {"id": word, "ids": [vocabulary[word]], "tokens": [word]}
                for word in ("[CLS]", "[SEP]")
            },
        },
        "decoder": None,
        "model": {  # whole words, which no piece continues
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": vocabulary,
        },
    }
    settings = {f"{word[1:-1].lower()}_token": word for word in SPECIAL}
    settings["tokenizer_class"] = "PreTrainedTokenizerFast"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
