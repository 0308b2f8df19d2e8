#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does `quern verify` tell the truth?

Runs every case again through `quern run` and judges the outputs with numpy
(rtol 1e-3, atol 1e-7, dtype and shape exact), then compares the verdict with
the one of `quern verify --json`.

    verdicts.py QUERN DIR [DIR ...]

Needs numpy and onnx (and ml_dtypes, which comes with onnx).
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import numpy_helper


def load(path):
    tensor = onnx.TensorProto()
    tensor.ParseFromString(path.read_bytes())
    return tensor


def output_of(folder, name):
    """What `quern run` wrote: .npy, or .pb for types that .npy lacks."""
    safe = "".join("_" if c in '/\\:*?"<>| ' else c for c in name)[:127]
    if (folder / f"{safe}.npy").exists():
        return np.load(folder / f"{safe}.npy")
    return numpy_helper.to_array(load(folder / f"{safe}.pb"))


def same(got, want):
    """Both are TensorProto or (numpy array) with exact type and shape."""
    if got.dtype != want.dtype:
        # ONNX before 1.13 wrote bfloat16 as the uint16 with the same bits, and
        # cut where the specification rounds
        if got.dtype.name == "bfloat16" and want.dtype == np.uint16:
            bits = got.view(np.uint16).astype(np.int32) - want
            return got.shape == want.shape and bool(np.all(
                (bits == 0) | (bits == 1)
                | (np.isnan(got) & np.isnan(want.view(got.dtype)))))
        return False
    if got.shape != want.shape:
        return False
    if got.dtype == object or got.dtype.kind in "US":
        return [str(x) for x in got.ravel()] == [str(x) for x in want.ravel()]
    if got.dtype.kind == "c":
        return np.allclose(got, want, rtol=1e-3, atol=1e-7, equal_nan=True)
    g, w = got.astype(np.float64), want.astype(np.float64)
    if got.dtype.kind in "iub":
        return np.array_equal(got, want) or np.allclose(g, w, rtol=1e-3,
                                                        atol=1e-7)
    return np.allclose(g, w, rtol=1e-3, atol=1e-7, equal_nan=True)


def numbered(folder, stem):
    files = folder.glob(f"{stem}_*.pb")
    return sorted(files, key=lambda p: int(p.stem.split("_")[1]))


def judge(quern, case, work):
    """passed or failed, by numpy."""
    model = onnx.load(case / "model.onnx", load_external_data=False)
    init = {i.name for i in model.graph.initializer}
    names = [i.name for i in model.graph.input]
    fed = [n for n in names if n not in init or model.ir_version >= 4]
    for data in sorted(case.glob("test_data_set_*")):
        args = []
        for k, path in enumerate(numbered(data, "input")):
            name = load(path).name
            if name not in names:
                name = (fed if k < len(fed) else names)[k]
            args += ["--input", f"{name}={path}"]
        out = work / "out"
        subprocess.run(["rm", "-rf", str(out)], check=True)
        run = subprocess.run(
            [quern, "run", str(case / "model.onnx"), "--output-dir", str(out),
             "--any-shape", *args], capture_output=True, text=True)
        if run.returncode:
            return "failed", run.stderr.strip()
        outputs = [o.name for o in model.graph.output]
        for k, path in enumerate(numbered(data, "output")):
            want = load(path)
            name = want.name if want.name in outputs else outputs[k]
            if not same(output_of(out, name), numpy_helper.to_array(want)):
                return "failed", f"output {name} differs"
    return "passed", ""


def main():
    quern, roots = sys.argv[1], sys.argv[2:]
    verify = subprocess.run([quern, "verify", "--json", *roots],
                            capture_output=True, text=True)
    report = json.loads(verify.stdout)
    disagree = agreed = skipped = expect = 0
    with tempfile.TemporaryDirectory() as temp:
        for case in report["cases"]:
            folder = pathlib.Path(case["path"])
            if case["result"] == "skipped":
                skipped += 1
                continue
            if (folder / "EXPECT").exists():
                expect += 1
                continue
            verdict, why = judge(quern, folder, pathlib.Path(temp))
            if verdict == case["result"]:
                agreed += 1
            else:
                disagree += 1
                print(f"{folder}: verify says {case['result']}, numpy says "
                      f"{verdict} {why}", flush=True)
    print(f"verify: {report['passed']} passed, {report['failed']} failed, "
          f"{report['skipped']} skipped; numpy agrees on {agreed}, disagrees "
          f"on {disagree} ({expect} cases with EXPECT not compared)")
    return 1 if disagree or not agreed else 0


if __name__ == "__main__":
    sys.exit(main())
