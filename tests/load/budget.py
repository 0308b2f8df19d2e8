#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The budget holds: with 1,000 keep-alive connections, 64 bodies of 1.6 MB in
flight and 200 distinct shapes, anonymous and shared memory, sampled every
10 ms, stay within the budget and 64 MiB.

    budget.py QUERN [--budget 192M]

Makes its own model: y = Relu(x) + Sigmoid(x) for any [N, 3, H, W]. Needs onnx.
"""
import argparse
import json
import pathlib
import resource
import socket
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from harness import Server, post_bytes, read_response  # noqa: E402


def make_model(folder):
    from onnx import TensorProto, helper, save
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT,
                                      ["n", 3, "h", "w"])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])
    nodes = [helper.make_node("Relu", ["x"], ["a"]),
             helper.make_node("Sigmoid", ["x"], ["b"]),
             helper.make_node("Add", ["a", "b"], ["c"]),
             helper.make_node("ReduceMean", ["c"], ["y"], axes=[2, 3],
                              keepdims=0)]
    graph = helper.make_graph(nodes, "g", [x], [y])
    model = helper.make_model(graph, ir_version=8,
                              opset_imports=[helper.make_opsetid("", 17)])
    (folder / "m" / "1").mkdir(parents=True)
    save(model, folder / "m" / "1" / "model.onnx")


class Sampler(threading.Thread):
    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.peak, self.samples = server, 0, 0
        self.stop = threading.Event()

    def run(self):
        while not self.stop.wait(0.01):
            self.peak = max(self.peak, sum(self.server.memory_kb()) * 1024)
            self.samples += 1


def sender(server, bodies, results, lock):
    sock, rest = socket.create_connection(("127.0.0.1", server.port)), b""
    sock.settimeout(120)
    for body in bodies:
        for _ in range(500):
            sock.sendall(post_bytes("/v1/models/m:infer", body))
            status, headers, answer, rest = read_response(sock, rest)
            with lock:
                results[status] = results.get(status, 0) + 1
                if status in (429, 503) and "retry-after" not in headers:
                    results["no Retry-After"] = 1
            if headers.get("connection", "").lower() == "close":
                sock.close()
                sock, rest = socket.create_connection(
                    ("127.0.0.1", server.port)), b""
                sock.settimeout(120)
            if status not in (429, 503):
                break
            time.sleep(0.02)
    sock.close()


def size(text):
    return int(text[:-1]) << {"K": 10, "M": 20, "G": 30}[text[-1]]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("quern")
    parser.add_argument("--budget", default="192M")
    parser.add_argument("--connections", type=int, default=1000)
    parser.add_argument("--senders", type=int, default=64)
    options = parser.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    # 150,528 numbers of 10 characters and more: 1.6 MB
    numbers = ["0.%08d" % (i * 7919 % 99999999 + 1) for i in range(150528)]
    big = ('{"inputs":[{"name":"x","datatype":"FP32","shape":[1,3,224,224],'
           '"data":[' + ",".join(numbers) + "]}]}").encode()
    small = [json.dumps({"inputs": [{
        "name": "x", "datatype": "FP32", "shape": [1, 3, 1 + k % 20, 1 + k],
        "data": [0.5] * (3 * (1 + k % 20) * (1 + k))}]}).encode()
        for k in range(200)]
    with tempfile.TemporaryDirectory() as temp:
        temp = pathlib.Path(temp)
        make_model(temp / "models")
        with Server(options.quern, temp / "models", temp / "log",
                    "--memory-budget", options.budget) as server:
            server.wait_ready()
            sampler = Sampler(server)
            sampler.start()
            idle, rests = [], 0
            for _ in range(options.connections):
                s = socket.create_connection(("127.0.0.1", server.port))
                s.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
                idle.append(s)
            for s in idle:
                s.settimeout(30)
                rests += read_response(s)[0] == 200
            results, lock = {}, threading.Lock()
            threads = [threading.Thread(
                target=sender, daemon=True,
                args=(server, [big] * 3 + small[k::options.senders] + [big] * 3,
                      results, lock))
                for k in range(options.senders)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            sampler.stop.set()
            sampler.join()
            status, ready = server.get("/readyz")
            limit = size(options.budget) + (64 << 20)
            print(f"{rests} keep-alive connections, {options.senders} senders "
                  f"of {len(big)} bytes, {len(small)} shapes; answers {results}")
            print(f"peak {sampler.peak / 2**20:.1f} MiB over {sampler.samples} "
                  f"samples; budget and 64 MiB: {limit / 2**20:.0f} MiB")
            wanted = 6 * options.senders + len(small)
            ok = (sampler.peak <= limit and results.get(200) == wanted
                  and status == 200 and rests == options.connections
                  and set(results) <= {200, 429, 503})
            for s in idle:
                s.close()
            return 0 if ok and server.stop() == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
