#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The same values over HTTP as in the file.

For each <folder>/<model>/ in ONNX backend layout: the inputs of every data set
go as JSON to a server, and what comes back is compared with the expected
outputs (rtol 1e-3, atol 1e-7) and, bit for bit, with what `quern run` writes.

    http_parity.py QUERN FOLDER MODEL [MODEL ...]

Needs numpy and onnx.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "load"))
from harness import Server, repository  # noqa: E402

WIRE = {"float32": "FP32", "float64": "FP64", "float16": "FP16",
        "int64": "INT64", "int32": "INT32", "int8": "INT8", "uint8": "UINT8",
        "bool": "BOOL"}
NUMPY = {wire: name for name, wire in WIRE.items()}


def tensors(folder, stem):
    files = sorted(folder.glob(f"{stem}_*.pb"),
                   key=lambda p: int(p.stem.split("_")[1]))
    out = []
    for f in files:
        t = onnx.TensorProto()
        t.ParseFromString(f.read_bytes())
        out.append((f, t.name, numpy_helper.to_array(t)))
    return out


def to_json(name, a):
    data = [None if isinstance(v, float) and v != v else v
            for v in a.ravel().tolist()]
    return {"name": name, "datatype": WIRE[a.dtype.name],
            "shape": list(a.shape), "data": data}


def from_json(o):
    data = [float(v) if isinstance(v, str) else v for v in o["data"]]
    return np.array(data, dtype=NUMPY[o["datatype"]]).reshape(o["shape"])


def main():
    quern, folder, models = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:]
    failed = 0
    with tempfile.TemporaryDirectory() as temp:
        temp = pathlib.Path(temp)
        repo = repository(temp / "models",
                          {m: folder / m / "model.onnx" for m in models})
        with Server(quern, repo, temp / "log") as server:
            server.wait_ready()
            for m in models:
                names = [i["name"] for i in json.loads(
                    server.get(f"/v1/models/{m}")[1])["inputs"]]
                for data in sorted((folder / m).glob("test_data_set_*")):
                    inputs, args = [], []
                    for k, (f, name, a) in enumerate(tensors(data, "input")):
                        name = name if name in names else names[k]
                        inputs.append(to_json(name, a))
                        args += ["--input", f"{name}={f}"]
                    status, answer = server.request(
                        "POST", f"/v1/models/{m}:infer",
                        json.dumps({"inputs": inputs}))
                    if status != 200:
                        print(f"FAILED  {m}: {status} {answer[:300]!r}")
                        failed += 1
                        continue
                    got = [(o["name"], from_json(o))
                           for o in json.loads(answer)["outputs"]]
                    out = temp / "out"
                    subprocess.run([quern, "run", str(folder / m / "model.onnx"),
                                    "--output-dir", str(out), *args],
                                   check=True, capture_output=True)
                    bad = []
                    for (name, g), (_, _, w) in zip(got, tensors(data, "output")):
                        safe = "".join("_" if c in '/\\:*?"<>| ' else c
                                       for c in name)
                        lone = np.load(out / f"{safe}.npy")
                        if g.dtype != w.dtype or g.shape != w.shape or \
                                not np.allclose(g, w, rtol=1e-3, atol=1e-7,
                                                equal_nan=True):
                            bad.append(f"{name} differs from the test's")
                        if g.tobytes() != lone.tobytes():
                            bad.append(f"{name} differs from run's bits")
                    failed += bool(bad)
                    print(f"{'FAILED' if bad else 'passed'}  {m} {data.name}: "
                          f"{len(got)} outputs {' '.join(bad)}", flush=True)
    print(f"{failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
