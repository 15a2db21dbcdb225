"""Opens report pages in a real browser (chromium, by playwright) and looks at what it makes of
them.

usage: check_report.py [--program build/release/nystrom] [--screenshots FOLDER]

Trains two toys, writes the page of one and the page that compares both, and opens them at the width
of a phone and of a desk, light and dark: no message on the console, no request but for the file,
nothing wider than the screen, every picture drawn, the texts there, ink that differs from the
paper."""

import itertools
import os
import shutil
import sys
from pathlib import Path

from common import NOVEL, run, script
from playwright.sync_api import sync_playwright

RUN = """
run_dir: '{folder}/{name}'
seed: {seed}
model: {{hidden_size: 32, num_hidden_layers: 2, num_attention_heads: 2, intermediate_size: 64,
  max_position_embeddings: 64,
         attention: {{num_landmarks: 8, conv_kernel_size: 5}}}}
tokenizer: {{train: {{vocab_size: 1000}}}}
data: {{train: ["{novel}"], validation: ["{novel}"], sequence_length: 64, cache: "{folder}/cache"}}
schedule: {{warmup_steps: 1}}
training: {{steps: 6, batch_size: 8, micro_batch_size: 8, dtype: f32}}
evaluation: {{every: 2}}
logging: {{every: 1, attention_every: 1, tensorboard: false}}
"""
# A chart for each, with a line for each layer.
LAYER_PANELS = [
    "Difference from exact attention",
    "Entropy of exact attention",
    "Residual of the inverse",
    "Gradient through the inverse",
]
TEXTS = {
    "run": [
        "step 6 of 6, finished",
        "Loss",
        "Learning rate",
        "Throughput",
        "Peak memory",
        "She looked out of the [MASK] at the garden.",
        "training.batch_size",
        "Log",
    ],
    "both": ["2 runs compared", "Best evaluations", "Loss, validation", "seed"],
}
SIZES = {"phone": 360, "desk": 1200}


def make_pages(program, folder):
    for name, seed in [("one <b>&", 1), ("two", 2)]:
        (folder / "run.yaml").write_text(
            RUN.format(folder=folder, name=name, novel=NOVEL, seed=seed)
        )
        run(program, "pretrain", folder / "run.yaml", "--quiet")
    one, two = folder / "one <b>&", folder / "two"
    run(program, "report", one, "--output", folder / "run.html")
    run(program, "report", one, two, "--output", folder / "both.html")


def look(check, browser, file, page_name, size, scheme, screenshots):
    what = f"{page_name}, {size}, {scheme}"
    page = browser.new_page(viewport={"width": SIZES[size], "height": 800}, color_scheme=scheme)
    messages, requests = [], []
    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(file.as_uri())
    check(not messages, f"{what}: no message on the console {messages}")
    check(requests == [file.as_uri()], f"{what}: no request but for the file {requests[1:]}")
    width = page.evaluate("document.documentElement.scrollWidth")
    check(width <= SIZES[size], f"{what}: {width} wide")
    drawn = page.evaluate(
        "[...document.querySelectorAll('svg')].map(s => s.getBoundingClientRect().width "
        "> 200 && !!s.querySelector('polyline'))"
    )
    check(len(drawn) >= 6 and all(drawn), f"{what}: {len(drawn)} pictures")
    if page_name == "run":
        for title in LAYER_PANELS:
            panel = page.locator("svg", has=page.locator("text", has_text=title))
            texts = panel.locator("text").all_text_contents()
            names = [text for text in texts if text.startswith("layer ")]
            layers = ["layer 0", "layer 1"]
            check(
                panel.count() == 1 and names == layers and panel.locator("polyline").count() == 2,
                f"{what}: {title!r} of {names}",
            )
    text = page.evaluate("document.documentElement.textContent")
    for part in TEXTS[page_name]:
        check(part in text, f"{what}: says {part!r}")
    check(
        "one <b>&" in text and page.locator("h1 b, td b").count() == 0,
        f"{what}: the name of the run is text",
    )
    paper, ink = page.evaluate(
        "(() => {const s = getComputedStyle(document.body); return [s.backgroundColor, s.color]})()"
    )
    brightness = [sum(int(n) for n in colour[4:-1].split(",")[:3]) for colour in (paper, ink)]
    check(
        abs(brightness[0] - brightness[1]) > 380 and (brightness[0] < 380) == (scheme == "dark"),
        f"{what}: ink {ink} on {paper}",
    )
    letters = page.evaluate(
        "(() => {const s = document.querySelector('svg'); return 14 * "
        "s.getBoundingClientRect().width / s.viewBox.baseVal.width})()"
    )
    check(letters >= 9, f"{what}: letters of {letters:.1f} px in pictures")
    if screenshots:
        page.screenshot(path=screenshots / f"{page_name}-{size}-{scheme}.png", full_page=True)
        if size == "desk" and scheme == "light":
            page.pdf(path=screenshots / f"{page_name}.pdf")
    page.close()


@script(__doc__, screenshots=Path)
def main(arguments, check, folder):
    chromium = shutil.which("chromium")
    if not chromium:
        sys.exit(
            "check_report.py: chromium is missing; install it (./dev test-interop does on Debian)"
        )
    screenshots = arguments.screenshots
    if screenshots:
        screenshots.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        make_pages(arguments.program, folder)
        # Chromium has no sandbox for root, the user in containers. The page is trusted.
        browser = playwright.chromium.launch(
            executable_path=chromium, chromium_sandbox=os.geteuid() != 0
        )
        for name, size, scheme in itertools.product(TEXTS, SIZES, ("light", "dark")):
            look(check, browser, folder / f"{name}.html", name, size, scheme, screenshots)
        browser.close()
