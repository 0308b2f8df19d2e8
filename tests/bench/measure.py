#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tables of README.md, section Measured.

    measure.py QUERN [--seconds 3] [--rounds 3] MODEL.onnx[,input=1x3x48x320]...

Latency: `quern bench` and ONNX Runtime in turn, each in a process of its own,
with 1 and 2 threads; the median of the rounds' medians. Memory: `quern
inspect`. Server: the example, from exec to ready and requests per second.
Needs numpy and onnxruntime for the first.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "load"))
from harness import free_port  # noqa: E402

EXAMPLES = pathlib.Path(__file__).parents[2] / "models" / "examples"


def name_of(model):
    return model.parent.name if model.stem == "model" else model.stem


def ort(model, shapes, threads, seconds):
    """Run in a process of its own: median of the calls, in ms."""
    import numpy as np
    import onnxruntime
    onnxruntime.set_default_logger_severity(3)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        model, options, providers=["CPUExecutionProvider"])
    given = dict(s.split("=") for s in shapes)
    rng = np.random.default_rng(1)
    feeds = {}
    for i in session.get_inputs():
        dims = [int(d) for d in given[i.name].split("x")] if i.name in given \
            else [d if isinstance(d, int) else 1 for d in i.shape]
        kind = {"tensor(float)": np.float32, "tensor(double)": np.float64,
                "tensor(int64)": np.int64, "tensor(int32)": np.int32}[i.type]
        feeds[i.name] = rng.random(dims).astype(kind)
    for _ in range(5):
        session.run(None, feeds)
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 5:
        start = time.perf_counter()
        session.run(None, feeds)
        times.append(time.perf_counter() - start)
    print(statistics.median(times) * 1e3)


def call(*command):
    return subprocess.run([str(c) for c in command], check=True,
                          capture_output=True, text=True).stdout


def latency(options, model, shapes):
    flags = [f for s in shapes for f in ("--shape", s)]
    row = [f"`{name_of(model)}`" + "".join(f" {s}" for s in shapes)]
    for threads in (1, 2):
        ours, theirs = [], []
        for _ in range(options.rounds):
            ours.append(json.loads(call(
                options.quern, "bench", model, "--json", "--threads", threads,
                "--duration", f"{options.seconds}s", *flags))["p50_ms"])
            theirs.append(float(call(
                sys.executable, __file__, options.quern, "--ort",
                "--threads", threads, "--seconds", options.seconds,
                ",".join([str(model), *shapes]))))
        row += [f"{statistics.median(x):.2f}" for x in (ours, theirs)]
    return row


def memory(options, model, shapes):
    flags = [f for s in shapes for f in ("--shape", s)]
    r = json.loads(call(options.quern, "inspect", model, "--json", *flags))
    return [f"`{name_of(model)}`" + "".join(f" {s}" for s in shapes),
            f"{r['static_bytes'] / 1e6:.2f}", f"{r['no_reuse_bytes'] / 1e6:.2f}",
            f"{r['arena_bytes'] / 1e6:.2f}", f"{r['lower_bound'] / 1e6:.2f}",
            f"{r['arena_bytes'] / max(r['lower_bound'], 1):.4f}"]


def server(options):
    """Rows of (what, value)."""
    starts, rows = [], []
    for last in [False] * 4 + [True]:
        port = free_port()
        base = f"http://127.0.0.1:{port}"
        start = time.perf_counter()
        process = subprocess.Popen(
            [options.quern, "serve", "--models", EXAMPLES, "--port", str(port)],
            stderr=subprocess.DEVNULL)
        while subprocess.run([options.quern, "healthcheck", base + "/readyz"],
                             capture_output=True).returncode:
            time.sleep(0.001)
        starts.append((time.perf_counter() - start) * 1e3)
        for clients in (1, 8, 64) if last else ():
            r = json.loads(call(options.quern, "bench", base +
                                "/v1/models/digits", "--json", "--concurrency",
                                clients, "--duration", f"{options.seconds}s"))
            rows.append([f"example, {clients} clients",
                         f"{r['inferences_per_s']:,.0f} requests/s, p50 "
                         f"{r['p50_ms']:.2f} ms, p99 {r['p99_ms']:.2f} ms"])
        if last:
            status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
            rss = [line.split()[1] for line in status.splitlines()
                   if line.startswith("VmRSS")][0]
            rows.append(["resident after that", f"{int(rss) / 1024:.1f} MiB"])
        process.terminate()
        process.wait()
    with tempfile.TemporaryDirectory() as temp:
        copy = shutil.copy(options.quern, temp)
        call("strip", copy)
        size = os.path.getsize(copy)
    return [["from exec to ready, one model",
             f"{statistics.median(starts):.0f} ms"], *rows,
            ["program, stripped", f"{size / 1e6:.2f} MB"]]


def table(head, rows):
    if not rows:
        return
    print("| " + " | ".join(head) + " |")
    print("|---" + "|---:" * (len(head) - 1) + "|")
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("quern")
    parser.add_argument("models", nargs="*")
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--ort", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_intermixed_args()
    models = [(pathlib.Path(m.split(",")[0]), m.split(",")[1:])
              for m in options.models]
    if options.ort:
        ort(str(models[0][0]), models[0][1], options.threads, options.seconds)
        return
    table(["model", "Quern, 1 thread", "ONNX Runtime, 1", "Quern, 2",
           "ONNX Runtime, 2"], [latency(options, *m) for m in models])
    table(["model", "static MB", "without reuse MB", "arena MB", "bound MB",
           "arena / bound"], [memory(options, *m) for m in models])
    table(["what", "value"], server(options))


if __name__ == "__main__":
    main()
