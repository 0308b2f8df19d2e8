#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Many clients, many models, many shapes: every answer has the bits of the one
that was given alone, all leases come back, and memory does not grow.

    soak.py QUERN MODELS_DIR [--light MODEL.onnx] [--requests 20000]
            [--clients 64]

MODELS_DIR holds ppocr-v4-rec, silero_vad and magika as <name>/model.onnx. The
text of a float is the shortest that reads back to the same bits, so equal
bodies are equal bits.
"""
import argparse
import json
import math
import pathlib
import random
import socket
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from harness import Server, post_bytes, read_response, repository  # noqa: E402


def wave(n):
    return [round(0.5 * math.sin(0.05 * i), 6) for i in range(n)]


def tensor(name, datatype, shape, data):
    return {"name": name, "datatype": datatype, "shape": shape, "data": data}


def bodies(light):
    """[(model, body)] of all kinds of requests."""
    out = []
    for k in range(20):
        width = 32 + 16 * k
        n = 3 * 48 * width
        out.append(("ppocr-v4-rec", [tensor(
            "x", "FP32", [1, 3, 48, width],
            [(i * 7 % 255) / 255 for i in range(n)])]))
    for rate, size in ((16000, 576), (8000, 288)):
        for k in range(3):
            out.append(("silero_vad", [
                tensor("input", "FP32", [1, size],
                       [v * (k + 1) / 3 for v in wave(size)]),
                tensor("state", "FP32", [2, 1, 128], [0.0] * 256),
                tensor("sr", "INT64", [], [rate])]))
    for k in range(4):
        out.append(("magika", [tensor(
            "bytes", "INT32", [1, 2048],
            [(i * (k + 1)) % 257 for i in range(2048)])]))
    if light:
        out.append(("light", [tensor(
            light, "FP32", [1, 3, 224, 224],
            [(i % 255) / 255 for i in range(3 * 224 * 224)])]))
    return [(m, json.dumps({"inputs": i}).encode()) for m, i in out]


class Client(threading.Thread):
    def __init__(self, port, work, todo, seed):
        super().__init__(daemon=True)
        self.port, self.work, self.todo = port, work, todo
        self.random = random.Random(seed)
        self.done = self.wrong = self.retried = 0
        self.why = ""

    def run(self):
        sock, rest = socket.create_connection(("127.0.0.1", self.port)), b""
        sock.settimeout(300)
        while self.todo.take():
            request, want = self.random.choices(
                self.work, weights=[w[2] for w in self.work])[0][:2]
            for _ in range(1000):
                sock.sendall(request)
                status, headers, body, rest = read_response(sock, rest)
                if status not in (429, 503):
                    break
                self.retried += 1
                time.sleep(0.01)
            self.done += 1
            if status != 200 or body != want:
                self.wrong += 1
                self.why = f"status {status}: {body[:200]!r}"
        sock.close()


class Counter:
    def __init__(self, n):
        self.n, self.lock = n, threading.Lock()

    def take(self):
        with self.lock:
            self.n -= 1
            return self.n >= 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("quern")
    parser.add_argument("models", type=pathlib.Path)
    parser.add_argument("--light")
    parser.add_argument("--light-input", default="gpu_0/data_0")
    parser.add_argument("--light-share", type=float, default=0.01)
    parser.add_argument("--requests", type=int, default=20000)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--flag", action="append", default=[])
    options = parser.parse_args()
    models = {m: options.models / m / "model.onnx"
              for m in ("ppocr-v4-rec", "silero_vad", "magika")}
    if options.light:
        models["light"] = options.light
    with tempfile.TemporaryDirectory() as temp:
        repo = repository(pathlib.Path(temp) / "models", models)
        with Server(options.quern, repo, pathlib.Path(temp) / "log",
                    *options.flag) as server:
            server.wait_ready()
            work = []
            for model, body in bodies(options.light and options.light_input):
                status, answer = server.request(
                    "POST", f"/v1/models/{model}:infer", body)
                if status != 200:
                    raise SystemExit(f"{model}: {status} {answer[:300]!r}")
                share = options.light_share * 20 if model == "light" else 1.0
                work.append((post_bytes(f"/v1/models/{model}:infer", body),
                             answer, share))
            todo = Counter(options.requests)
            clients = [Client(server.port, work, todo, k)
                       for k in range(options.clients)]
            started = time.monotonic()
            for c in clients:
                c.start()
            quarter = None
            while any(c.is_alive() for c in clients):
                time.sleep(0.2)
                done = sum(c.done for c in clients)
                if quarter is None and done >= options.requests / 4:
                    quarter = server.memory_kb()
                if sys.stderr.isatty():
                    print(f"\r{done}/{options.requests}", end="",
                          file=sys.stderr)
            seconds = time.monotonic() - started
            end = server.memory_kb()
            time.sleep(0.5)
            leased = server.status()
            done = sum(c.done for c in clients)
            wrong = sum(c.wrong for c in clients)
            retried = sum(c.retried for c in clients)
            grown = end[0] + end[1] - quarter[0] - quarter[1]
            for c in clients:
                if c.why:
                    print("wrong:", c.why)
                    break
            print(f"{done} requests by {options.clients} clients in "
                  f"{seconds:.1f} s, {len(work)} kinds, {retried} retries after "
                  f"429 or 503")
            print(f"{wrong} answers differ; anonymous memory grew by "
                  f"{grown} KiB from a quarter of the run to its end")
            print("pool:", json.dumps(leased.get("pool", leased)))
            ok = done == options.requests and not wrong and grown <= 1024
            code = server.stop()
            print("exit status", code)
            return 0 if ok and code == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
