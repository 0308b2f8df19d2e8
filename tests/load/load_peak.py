#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Loading peaks at static memory, the largest single tensor and 16 MiB.

Samples anonymous and shared memory every millisecond while a server loads the
model, and compares with what it reports afterwards.

    load_peak.py QUERN MODEL.onnx

Needs onnx (for the size of the largest tensor).
"""
import json
import pathlib
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from harness import Server  # noqa: E402


def largest_tensor(path):
    import numpy as np
    import onnx
    model = onnx.load(path)
    sizes = [int(np.prod(list(t.dims) or [1])) *
             onnx.helper.tensor_dtype_to_np_dtype(t.data_type).itemsize
             for t in model.graph.initializer]
    return max(sizes or [0])


def main():
    quern, model = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    largest = largest_tensor(model)
    with tempfile.TemporaryDirectory() as temp:
        temp = pathlib.Path(temp)
        (temp / "models" / "m" / "1").mkdir(parents=True)
        (temp / "models" / "m" / "1" / "model.onnx").symlink_to(model)
        with Server(quern, temp / "models", temp / "log") as server:
            peak, stop = [0], threading.Event()

            def sample():
                while not stop.is_set():
                    try:
                        peak[0] = max(peak[0], sum(server.memory_kb()) * 1024)
                    except (OSError, KeyError):
                        pass
                    time.sleep(0.001)

            thread = threading.Thread(target=sample, daemon=True)
            thread.start()
            server.wait_ready()
            stop.set()
            thread.join()
            info = json.loads(server.get("/v1/models/m")[1])
            static = info["memory"]["static_bytes"]
            limit = static + largest + (16 << 20)
            print(f"static {static / 2**20:.1f} MiB, largest tensor "
                  f"{largest / 2**20:.1f} MiB, peak while loading "
                  f"{peak[0] / 2**20:.1f} MiB, limit {limit / 2**20:.1f} MiB, "
                  f"load {info['load_ms']:.0f} ms")
            return 0 if info["ready"] and peak[0] <= limit else 1


if __name__ == "__main__":
    sys.exit(main())
