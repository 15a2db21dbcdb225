"""The end of a call's output: what its results say, in at most 11,500 characters."""

from gpu_suites import bad_tests, count, worst_line

MOST_CHARACTERS = 11500


def errors(value, path: str = "") -> list[str]:
    """Every error in a result, with its place."""
    if isinstance(value, list):
        return [line for i, item in enumerate(value) for line in errors(item, f"{path}/{i}")]
    if not isinstance(value, dict):
        return []
    own = [f"{path}: {value['error']}"] if value.get("error") else []
    return own + [line for name, item in value.items() for line in errors(item, f"{path}/{name}")]


def failed(results: dict) -> bool:
    suites = [results.get("suites", {}), *results.get("sanitizer", {}).values()]
    return bool(errors(results)) or any(bad_tests(tests) for tests in suites if is_tests(tests))


def is_tests(value) -> bool:
    return isinstance(value, dict) and all(
        isinstance(test, dict) and "status" in test for test in value.values()
    )


def of_tests(title: str, tests: dict) -> list[str]:
    if not is_tests(tests) or not tests:
        return []
    near = sorted(tests, key=lambda test: -tests[test].get("error_over_tolerance", 0))[:6]
    told = [f"{test} {tests[test].get('error_over_tolerance', 0):.2f}" for test in near]
    lines = [f"{title}: {count(tests)}", "  nearest to the tolerance: " + ", ".join(told)]
    skipped = [test for test, result in tests.items() if result["status"] == "skipped"]
    if skipped:
        lines.append(f"  skipped: {', '.join(skipped[:8])}")
    return lines + [worst_line(test, tests[test]) for test in bad_tests(tests)[:12]]


def of_lengths(title: str, result: dict) -> list[str]:
    lines = []
    for run in result.get("lengths", []):
        if "median_step_seconds" not in run:
            continue
        length = run.get("length") or run["settings"]["length"]
        lines.append(
            f"{title}, {length} tokens: {1e3 * run['median_step_seconds']:.2f} ms, "
            f"{run['tokens_per_second']:,.0f} tokens/s, {run['peak_memory_bytes'] / 1e9:.1f} GB"
        )
        if "slow_products" in run:
            lines.append(
                f"  slow products {run['slow_products']}, product alone "
                f"{run['product_flops_per_second'] / 1e12:.0f} TFLOP/s, copies "
                f"{run['copy_bytes_per_second'] / 1e12:.2f} TB/s, share of limit "
                f"{run['share_of_limit']:.2f}"
            )
        lines += of_kernels(run.get("kernels", []))
        lines += of_products(run.get("products", []))
    return lines


def of_kernels(kernels: list[dict]) -> list[str]:
    lines = ["  op, calls, ms a step"] if kernels else []
    for kernel in kernels[:14]:
        lines.append(f"  {kernel['name']}, {kernel['calls']:.0f}, {1e3 * kernel['seconds']:.2f}")
    return lines


def of_products(products: list[dict]) -> list[str]:
    """Products without an algorithm, and those that a later one computes clearly faster."""
    lines = []
    for product in products:
        times = [algorithm["seconds"] for algorithm in product["algorithms"]]
        fastest = min((time for time in times if time > 0), default=0)
        if not times:
            lines.append(f"  no algorithm: {product['product']}")
        elif fastest and times[0] > 1.03 * fastest:
            lines.append(
                f"  {product['product']}: {1e6 * times[0]:.0f} us, algorithm "
                f"{times.index(fastest)} of cuBLASLt's list {1e6 * fastest:.0f} us"
            )
    return lines[:10]


def of_attention(result: dict) -> list[str]:
    lines = []
    for name, rows in result.items():
        for row in rows if isinstance(rows, list) else []:
            if "seconds" in row:
                told = f"{row['kind']}, {row['length']}: {1e3 * row['seconds']:.3f} ms"
                lines.append(f"attention, {name}, {told}")
    return lines


def of_counters(result: dict) -> list[str]:
    lines = []
    for length, rows in result.items():
        for row in rows if isinstance(rows, list) else []:
            kernel = row["kernel"].split("(")[0][-70:]
            told = [f"{name.split('.')[0].split('__')[-1]} {row[name]}" for name in list(row)[3:9]]
            lines.append(f"ncu {length}: {kernel}: {', '.join(told)}")
    return lines


def summary(results: dict, problems: list[str]) -> str:
    lines = [f"problem: {problem}" for problem in problems]
    lines += [f"error: {line[:400]}" for line in errors(results)]
    libraries = results.get("libraries", {})
    lines.append(f"gpu: {libraries.get('gpu')}; {libraries.get('torch, transformers')}")
    blas = [path for path in libraries.get("loaded", []) if "cublas" in path or "cudnn" in path]
    lines.append(f"libraries: {', '.join(blas[:4]) or 'none of cuBLAS and cuDNN'}")
    lines += of_tests("tests", results.get("suites", {}))
    for tool, tests in results.get("sanitizer", {}).items():
        lines += of_tests(tool, tests)
    lines += of_lengths("one layer", results.get("smoke", {}))
    lines += of_lengths("nystrom", results.get("steps", {}))
    for name, result in results.get("rivals", {}).items():
        lines += of_lengths(name, result) if isinstance(result, dict) else []
    lines += of_attention(results.get("attention", {}))
    lines += of_lengths("at once", results.get("long", {}))
    apart = {"losses": results.get("losses", {}), **results.get("ranks", {})}
    for name, result in apart.items():
        if isinstance(result, dict) and "largest_relative_difference" in result:
            lines.append(f"{name}: {100 * result['largest_relative_difference']:.4f} % apart")
    lines += of_counters(results.get("counters", {}))
    return shortened(lines)


def shortened(lines: list[str]) -> str:
    """As many of the lines as there is room for."""
    text, left_out = "", 0
    for line in lines:
        if len(text) + len(line) + 60 > MOST_CHARACTERS:
            left_out += 1
        else:
            text += line + "\n"
    return text + (f"{left_out} more lines are in the results\n" if left_out else "")
