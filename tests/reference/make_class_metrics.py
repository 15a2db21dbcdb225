"""Writes fixtures/tasks/class_metrics.jsonl: metrics of scikit-learn for class_metrics_test.cpp.

    python tests/reference/make_class_metrics.py
"""

import json
import math
import pathlib
import random
import warnings

import numpy as np
from sklearn import metrics

warnings.simplefilter("ignore")
rng = random.Random(47)


def number(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def case(classes: int, entries: int, ties: bool) -> dict:
    truth = [i % classes if i < classes else rng.randrange(classes) for i in range(entries)]
    rng.shuffle(truth)
    logits = [[rng.gauss(0, 1) + (label == c) for c in range(classes)] for label in truth]
    if ties:
        logits = [[float(round(value)) for value in row] for row in logits]
    scores = np.array(logits)
    predicted = scores.argmax(1).tolist()
    if classes == 2:
        area = metrics.roc_auc_score(truth, scores[:, 1] - scores[:, 0])
    else:
        shares = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
        shares = shares if not ties else np.round(shares, 12)
        area = np.mean([metrics.roc_auc_score(np.array(truth) == c, shares[:, c])
                        for c in range(classes)])
        if not ties:
            whole = metrics.roc_auc_score(truth, shares, multi_class="ovr")
            assert abs(area - whole) < 1e-12
    per_class = metrics.precision_recall_fscore_support(
        truth, predicted, labels=list(range(classes)), zero_division=0)
    return {
        "truth": truth,
        "logits": logits,
        "predicted": predicted,
        "balanced_accuracy": number(metrics.balanced_accuracy_score(truth, predicted)),
        "kappa": number(metrics.cohen_kappa_score(truth, predicted)),
        "auc": number(area),
        "precision": per_class[0].tolist(),
        "recall": per_class[1].tolist(),
        "f1": per_class[2].tolist(),
        "support": per_class[3].tolist(),
    }


place = pathlib.Path(__file__).parent.parent / "fixtures" / "tasks" / "class_metrics.jsonl"
with place.open("w") as file:
    for classes in (2, 3, 5):
        for entries in (classes, 9, 60):
            for ties in (False, True):
                file.write(json.dumps(case(classes, entries, ties)) + "\n")
