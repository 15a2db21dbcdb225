"""Writes tests/fixtures/embedding_losses.json: the values and gradients of sentence-transformers'
losses on fixed vectors, in float64.

    build/interop-newest/bin/python tests/reference/make_embedding_losses.py

The options of each case stand in tests/nn/embedding_loss_test.cpp under the same name."""

import json

import torch
from sentence_transformers.sentence_transformer import losses
from sentence_transformers.sentence_transformer.losses.matryoshka import shrink

from common import FIXTURES

SAMPLES, WIDTH = 6, 7
SYMMETRIC = {"directions": ("query_to_doc", "doc_to_query"), "partition_mode": "per_direction"}


def ranking(columns, _, **options):
    loss = losses.MultipleNegativesRankingLoss(torch.nn.Identity(), **options)
    return loss.compute_loss_from_embeddings(columns, None)


def scored(kind, **options):
    def compute(columns, scores):
        return kind(torch.nn.Identity(), **options).compute_loss_from_embeddings(columns, scores)

    return compute


def cosine_similarity(columns, scores):
    # CosineSimilarityLoss rounds its labels to float32, which this avoids.
    similarities = torch.cosine_similarity(columns[0], columns[1])
    return torch.nn.functional.mse_loss(similarities, scores)


def triplet(metric, margin):
    def compute(columns, _):
        loss = losses.TripletLoss(torch.nn.Identity(), metric, margin)
        return loss.compute_loss_from_embeddings(columns, None)

    return compute


def matryoshka(dimensions, compute):
    def total(columns, scores):
        return sum(compute([shrink(c, d) for c in columns], scores) for d in dimensions)

    return total


METRIC = losses.TripletDistanceMetric
CASES = {
    "ranking": (2, ranking),
    "ranking_negatives": (4, ranking),
    "ranking_temperature": (2, lambda c, s: ranking(c, s, scale=1 / 0.3)),
    "ranking_symmetric": (3, lambda c, s: ranking(c, s, **SYMMETRIC)),
    "cosent": (2, scored(losses.CoSENTLoss)),
    "angle": (2, scored(losses.AnglELoss)),
    "cosine_similarity": (2, cosine_similarity),
    "triplet_euclidean": (3, triplet(METRIC.EUCLIDEAN, 0.7)),
    "triplet_cosine": (3, triplet(METRIC.COSINE, 0.2)),
    "matryoshka_ranking": (3, matryoshka([7, 4, 2], ranking)),
    "matryoshka_cosent": (2, matryoshka([5, 3], scored(losses.CoSENTLoss))),
}


def main() -> None:
    generator = torch.Generator().manual_seed(5)
    cases = {}
    for name, (count, compute) in CASES.items():
        columns = [
            torch.randn(SAMPLES, WIDTH, generator=generator, dtype=torch.float64).requires_grad_()
            for _ in range(count)
        ]
        # Two scores are equal: neither pair must come before the other.
        scores = torch.tensor([0.1, 0.8, 0.35, 0.8, 0.0, 1.0], dtype=torch.float64)
        loss = compute(columns, scores)
        loss.backward()
        cases[name] = {
            "columns": [c.detach().flatten().tolist() for c in columns],
            "scores": scores.tolist(),
            "loss": loss.item(),
            "gradients": [c.grad.flatten().tolist() for c in columns],
        }
    path = FIXTURES / "embedding_losses.json"
    document = {"samples": SAMPLES, "width": WIDTH, "cases": cases}
    path.write_text(json.dumps(document) + "\n")


if __name__ == "__main__":
    main()
