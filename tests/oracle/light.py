#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whole CNNs against ONNX Runtime.

The light_* models of the ONNX test suite have their weights replaced by
ConstantOfShape, so that every answer is the same number. Here each of those is
replaced by a seeded random tensor, and Quern's outputs are compared with ONNX
Runtime's: rtol 1e-3, and at least 900 of 1,000 outputs distinct.

    light.py QUERN FOLDER_OF_LIGHT_MODELS [--keep DIR] [--device cuda] [model ...]

With --device each model runs there too, with planned and with plain memory, and
both answers must have equal bits and be as near to ONNX Runtime's.

Needs numpy, onnx and onnxruntime.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
onnxruntime.set_default_logger_severity(3)
from onnx import numpy_helper


def positive_params(graph):
    """Names that must stay positive: scale and variance of normalisations."""
    names = set()
    for node in graph.node:
        if node.op_type == "BatchNormalization":
            names.update((node.input[1], node.input[4]))
    return names


def randomise(model, seed, gain, bias):
    graph = model.graph
    shapes = {i.name: numpy_helper.to_array(i) for i in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            shapes[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
    positive = positive_params(graph)
    rng = np.random.default_rng(seed)
    kept, replaced = [], 0
    for node in graph.node:
        if node.op_type != "ConstantOfShape" or node.input[0] not in shapes:
            kept.append(node)
            continue
        shape = [int(d) for d in shapes[node.input[0]].ravel()]
        fan_in = max(1, int(np.prod(shape[1:]))) if len(shape) > 1 else 1
        if node.output[0] in positive:
            w = rng.uniform(0.5, 1.5, shape)
        elif len(shape) > 1:
            w = rng.standard_normal(shape) * gain * np.sqrt(2.0 / fan_in)
        else:
            w = rng.uniform(0.0, bias, shape)
        graph.initializer.append(
            numpy_helper.from_array(w.astype(np.float32), node.output[0]))
        replaced += 1
    del graph.node[:]
    graph.node.extend(kept)
    return replaced


def inputs(session, seed):
    rng = np.random.default_rng(seed + 1)
    return {i.name: rng.standard_normal(
        [d if isinstance(d, int) and d > 0 else 1 for d in i.shape]
    ).astype(np.float32) for i in session.get_inputs()}


def varied(session, seed):
    out = session.run(None, inputs(session, seed))[0]
    return len(np.unique(out)) >= 0.95 * out.size


def run_on(quern, target, args, out, name, device):
    results = []
    for extra in ([], ["--no-reuse"]):
        subprocess.run([quern, "run", str(target), "--output-dir", str(out),
                        "--device", device, *args, *extra], check=True,
                       capture_output=True)
        results.append(np.load(out / (name.replace("/", "_") + ".npy")))
    if not np.array_equal(*results):
        raise AssertionError(f"planned and plain memory differ on {device}")
    return results[0]


def check(quern, path, work, seed, device):
    target = work / path.name
    # weights that neither saturate the softmax nor leave dead units: the first
    # of these with which ONNX Runtime's answer is varied enough
    for gain, bias in ((1.0, 0.5), (0.5, 1.0), (0.25, 1.0), (0.5, 4.0),
                       (0.1, 1.0)):
        model = onnx.load(path)
        replaced = randomise(model, seed, gain, bias)
        onnx.save(model, target)
        session = onnxruntime.InferenceSession(
            str(target), providers=["CPUExecutionProvider"])
        if varied(session, seed):
            break
    feeds, args = inputs(session, seed), []
    for name, value in feeds.items():
        npy = work / "in.npy"
        np.save(npy, value)
        args += ["--input", f"{name}={npy}"]
    want = session.run(None, feeds)
    out = work / "out"
    outputs = {}
    for extra in ([], ["--no-reuse"]):
        subprocess.run([quern, "run", str(target), "--output-dir", str(out),
                        *args, *extra], check=True, capture_output=True)
        name = session.get_outputs()[0].name
        outputs[bool(extra)] = np.load(out / (name.replace("/", "_") + ".npy"))
    got = outputs[False]
    if not np.array_equal(outputs[True], got):
        raise AssertionError("planned and plain memory differ")
    if device:
        there = run_on(quern, target, args, out, name, device)
        np.testing.assert_allclose(there, got, rtol=1e-3, atol=1e-7)
    distinct = len(np.unique(got))
    np.testing.assert_allclose(got, want[0], rtol=1e-3, atol=1e-7)
    error = float(np.max(np.abs(got - want[0]) / np.maximum(np.abs(want[0]),
                                                            1e-12)))
    if got.size >= 1000 and distinct < 0.9 * got.size:
        raise AssertionError(f"only {distinct} of {got.size} outputs distinct")
    inspect = subprocess.run([quern, "inspect", str(target), "--json"],
                             check=True, capture_output=True, text=True)
    plan = json.loads(inspect.stdout)
    return replaced, distinct, got.size, error, plan


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("quern")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device")
    options = parser.parse_args()
    failed = 0
    paths = sorted(options.folder.glob("light_*.onnx"))
    if options.models:
        paths = [p for p in paths if any(m in str(p) for m in options.models)]
    for path in paths:
        with tempfile.TemporaryDirectory() as temp:
            work = options.keep or pathlib.Path(temp)
            work.mkdir(parents=True, exist_ok=True)
            try:
                replaced, distinct, size, error, plan = check(
                    options.quern, path, work, options.seed, options.device)
                arena, bound = plan["arena_bytes"], plan["lower_bound"]
                print(f"passed  {path.stem:24} {replaced:4} weights, "
                      f"{distinct}/{size} distinct, max rel. error "
                      f"{error:.1e}, arena {arena / 1e6:.2f} MB = "
                      f"{arena / max(bound, 1):.3f} of the bound", flush=True)
            except (AssertionError, subprocess.CalledProcessError) as e:
                failed += 1
                text = getattr(e, "stderr", None) or str(e)
                print(f"FAILED  {path.stem}: {text}", flush=True)
    print(f"{len(paths) - failed} passed, {failed} failed")
    return 1 if failed or not paths else 0


if __name__ == "__main__":
    sys.exit(main())
