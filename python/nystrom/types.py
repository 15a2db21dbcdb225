"""What Model.predict gives for each kind of task, for type checkers: a model that is annotated as
nystrom.Model[list[Label]] predicts a list[Label] for a text."""

from __future__ import annotations

from typing import Any, TypedDict

__all__ = ["Answer", "Choice", "Entity", "Label", "Value", "Word"]


class Label(TypedDict):
    """A class: classification, and features with classes. A text has a list of them."""

    label: Any  # of the type that it had in training
    score: float


class Value(TypedDict):
    """A number: regression, and features with values. A text has one."""

    value: float


class Entity(TypedDict):
    """Words that are one entity: tokens. A text has a list of them."""

    entity_group: str
    score: float
    word: str
    start: int
    end: int


class Word(TypedDict):
    """A word with its label: tokens whose labels are no entities. A text has a list of them. A word
    that is not read has None for label and score, and no place; nor have words given as rows."""

    label: Any
    score: float | None
    word: str
    start: int
    end: int


class Answer(TypedDict):
    """A part of the second text: questions. A question has a list of them."""

    answer: str
    score: float
    start: int
    end: int


class Choice(TypedDict):
    """One of the choices: choice. A text has a list of them."""

    choice: str
    score: float
