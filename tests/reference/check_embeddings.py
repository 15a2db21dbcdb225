"""Compares `nystrom embed` and `nystrom evaluate` with numpy, pytrec_eval and scikit-learn.

usage: check_embeddings.py [--program build/release/nystrom]

Pretrains a small model and writes a folder in BEIR's form from lines of a novel, with equal
documents, graded judgements and a document that has the id of a query. numpy reads the vectors of
`nystrom embed` in both types; safetensors and JSON Lines hold the same. The products of the vectors
in float64, ranked and scored by pytrec_eval, must give the scores of `nystrom evaluate` within
1e-9, and the neighbours of `nystrom search`. A logistic regression of lines of two novels, fitted
to the same vectors, must be as accurate as that of `nystrom evaluate --classify`."""

import gzip
import json
import random

import numpy
import pytrec_eval
from check_export import train
from common import NOVEL, from_json_lines, run, script, to_json_lines
from safetensors.numpy import load_file
from sklearn.linear_model import LogisticRegression

MEASURES = {"ndcg_cut.10", "recall.100", "map_cut.100"}
DEPTH = 100
OTHER_NOVEL = NOVEL.with_name("woolf-lighthouse.txt.gz")


def long_lines(novel):
    with gzip.open(novel, "rt") as file:
        return [" ".join(line.split()) for line in file if len(line.split()) > 6]


def make_folder(folder):
    """300 documents, 40 queries, and their judgements."""
    rng = random.Random(7)
    lines = long_lines(NOVEL)[:250]
    documents = {f"d{i}": line for i, line in enumerate(lines)}
    documents |= {f"e{i}": rng.choice(lines) for i in range(49)}  # equal texts
    documents["q0"] = lines[0]
    queries = {f"q{i}": " ".join(rng.choice(lines).split()[:6]) for i in range(40)}
    judged = {
        query: {doc: rng.choice([0, 1, 1, 2, 3]) for doc in rng.sample(sorted(documents), 12)}
        for query in queries
    }
    (folder / "qrels").mkdir(parents=True)
    rows = [{"_id": d, "title": "", "text": t} for d, t in documents.items()]
    (folder / "corpus.jsonl").write_text(to_json_lines(rows))
    rows = [{"_id": q, "text": t} for q, t in queries.items()]
    (folder / "queries.jsonl").write_text(to_json_lines(rows))
    rows = [f"{q}\t{d}\t{s}\n" for q, found in judged.items() for d, s in found.items()]
    (folder / "qrels/test.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(rows))
    return list(documents), list(queries), judged


def embed(program, model, texts, output, *options):
    run(program, "embed", model, texts, "--output", output, "--quiet", *options)
    return output


def ranked_runs(documents, queries, vectors):
    """The hundred best documents of each query, as pytrec_eval orders them."""
    products = (vectors[1].astype("f8") @ vectors[0].astype("f8").T).astype("f4")
    runs = {}
    for query, row in zip(queries, products, strict=True):
        found = [(float(s), d) for s, d in zip(row, documents, strict=True) if d != query]
        runs[query] = {d: s for s, d in sorted(found, reverse=True)[:DEPTH]}
    return runs


def mean_scores(judged, runs):
    results = pytrec_eval.RelevanceEvaluator(judged, MEASURES).evaluate(runs)
    first = {q: dict(sorted(r.items(), key=lambda p: (p[1], p[0]))[-10:]) for q, r in runs.items()}
    ranks = pytrec_eval.RelevanceEvaluator(judged, {"recip_rank"}).evaluate(first)

    def mean(measure):
        return sum(result[measure] for result in results.values()) / len(results)

    return {
        "ndcg_at_10": mean("ndcg_cut_10"),
        "mrr_at_10": sum(r["recip_rank"] for r in ranks.values()) / len(ranks),
        "recall_at_100": mean("recall_100"),
        "map_at_100": mean("map_cut_100"),
    }


def make_labelled(folder):
    """Lines of two novels with the novel as their label: files to train on and to test."""
    rng, rows = random.Random(8), []
    for label, novel in (("treasure", NOVEL), ("lighthouse", OTHER_NOVEL)):
        rows += [f"{line}\t{label}\n" for line in rng.sample(long_lines(novel), 300)]
    rng.shuffle(rows)
    files = folder / "train.tsv", folder / "test.tsv"
    for file, part in zip(files, (rows[:400], rows[400:]), strict=True):
        file.write_text("text\tlabel\n" + "".join(part))
    return files


def regression_accuracy(program, model, files, scratch):
    """That of scikit-learn on the vectors of `nystrom embed`."""
    parts = []
    for file in files:
        rows = [line.split("\t") for line in file.read_text().splitlines()[1:]]
        texts = scratch / f"{file.stem}.txt"
        texts.write_text("".join(f"{text}\n" for text, _ in rows))
        vectors = numpy.load(embed(program, model, texts, scratch / f"{file.stem}.npy"))
        parts.append((vectors.astype("f8"), [label for _, label in rows]))
    regression = LogisticRegression(tol=1e-10, max_iter=10_000).fit(*parts[0])
    return regression.score(*parts[1])


@script(__doc__)
def main(arguments, check, scratch):
    program = arguments.program
    model, beir = train(program, scratch, "run", "nystrom", 33), scratch / "beir"
    documents, queries, judged = make_folder(beir)
    corpus, asking = beir / "corpus.jsonl", beir / "queries.jsonl"
    f32 = numpy.load(embed(program, model, corpus, scratch / "c.npy"))
    f16 = numpy.load(embed(program, model, corpus, scratch / "h.npy", "--dtype", "f16"))
    check(
        f32.shape == (300, 64) and f32.dtype == "f4" and f16.dtype == "f2",
        f"numpy reads {f32.shape} of {f32.dtype} and {f16.dtype}",
    )
    check((f32.astype("f2") == f16).all(), "f16 is f32 rounded")
    tensors = load_file(embed(program, model, corpus, scratch / "c.safetensors"))
    check((tensors["vectors"] == f32).all(), "safetensors holds the same")
    lines = from_json_lines(embed(program, model, corpus, scratch / "c.jsonl").read_text())
    rows = numpy.array([line["vector"] for line in lines], dtype="f4")
    check((rows == f32).all(), "JSON Lines hold the same")

    asked = numpy.load(embed(program, model, asking, scratch / "q.npy", "--prompt", "query"))
    runs = ranked_runs(documents, queries, (f32, asked))
    right = mean_scores(judged, runs)
    ours = json.loads(run(program, "evaluate", model, "--retrieval", beir, "--json", "--quiet"))
    worst = max(abs(ours[name] - value) for name, value in right.items())
    check(worst < 1e-9, f"scores differ from pytrec_eval's by {worst:.1e}: {right}")
    found = run(program, "search", model, scratch / "c.npy", asking, "--json", "--quiet")
    best = [line["neighbours"][0]["score"] for line in from_json_lines(found)]
    top = (asked.astype("f8") @ f32.astype("f8").T).max(1)
    check(numpy.abs(top - best).max() < 1e-6, "search finds the largest products")

    files = make_labelled(scratch)
    accuracy = regression_accuracy(program, model, files, scratch)
    options = ["--classify", files[0], "--test", files[1], "--json", "--quiet"]
    ours = json.loads(run(program, "evaluate", model, *options))
    check(
        abs(ours["accuracy"] - accuracy) < 1e-12,
        f"--classify has the accuracy {ours['accuracy']:.4f}, scikit-learn {accuracy:.4f}",
    )
