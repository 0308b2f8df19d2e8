#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Train the handwritten-digits example and write 1/model.onnx and request.json.

    python3 -m venv venv && venv/bin/pip install numpy onnx scikit-learn
    venv/bin/python train.py

scikit-learn is used for its copy of the images only (1,797 digits of 8 x 8
pixels, values 0 to 16). The network is trained in numpy, with a fixed seed: the
weights may differ in their last bits between machines, the accuracy hardly.
"""
import json
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits

SEED = 20240601
EPOCHS = 60
BATCH = 64
HELD_OUT = 360  # images that training never sees
CHANNELS = (16, 32)
HIDDEN = 64
HERE = pathlib.Path(__file__).resolve().parent


def load(rng):
    """Images [n, 1, 8, 8] float32 in 0..16, labels [n], shuffled, split."""
    data = load_digits()
    order = rng.permutation(len(data.target))
    x = data.images[order].astype(np.float32)[:, None]
    y = data.target[order].astype(np.int64)
    return (x[HELD_OUT:], y[HELD_OUT:]), (x[:HELD_OUT], y[:HELD_OUT])


def init(rng):
    """He initialisation: variance 2 / fan-in."""
    def weights(*shape):
        fan_in = np.prod(shape[1:])
        return (rng.standard_normal(shape) *
                np.sqrt(2.0 / fan_in)).astype(np.float32)

    c1, c2 = CHANNELS
    p = {"conv1.w": weights(c1, 1, 3, 3), "conv2.w": weights(c2, c1, 3, 3),
         "fc1.w": weights(HIDDEN, c2 * 4), "fc2.w": weights(10, HIDDEN)}
    for name in list(p):
        p[name[:-1] + "b"] = np.zeros(p[name].shape[0], np.float32)
    return p


def patches(x):
    """[n, c, h, w] -> [n, h, w, c * 9]: 3 x 3 windows, padded with zeros."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    win = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    n, c, h, w = x.shape
    return win.transpose(0, 2, 3, 1, 4, 5).reshape(n, h, w, c * 9)


def conv(x, w, b):
    cols = patches(x)
    y = cols @ w.reshape(len(w), -1).T + b
    return y.transpose(0, 3, 1, 2), cols


def conv_back(dy, cols, w):
    """Gradients of a 3 x 3 convolution: input, weights, bias."""
    n, k, h, wd = dy.shape
    flat = dy.transpose(0, 2, 3, 1).reshape(-1, k)
    dw = (flat.T @ cols.reshape(len(flat), -1)).reshape(w.shape)
    turned = w[:, :, ::-1, ::-1].transpose(1, 0, 2, 3)
    dx = patches(dy) @ turned.reshape(w.shape[1], -1).T
    return dx.transpose(0, 3, 1, 2), dw, flat.sum(0)


def pool(x):
    """2 x 2 maximum, and where it was."""
    n, c, h, w = x.shape
    v = x.reshape(n, c, h // 2, 2, w // 2, 2).transpose(0, 1, 2, 4, 3, 5)
    v = v.reshape(n, c, h // 2, w // 2, 4)
    at = v.argmax(-1)
    return np.take_along_axis(v, at[..., None], -1)[..., 0], at


def pool_back(dy, at):
    n, c, h, w = dy.shape
    v = np.zeros((n, c, h, w, 4), np.float32)
    np.put_along_axis(v, at[..., None], dy[..., None], -1)
    v = v.reshape(n, c, h, w, 2, 2).transpose(0, 1, 2, 4, 3, 5)
    return v.reshape(n, c, 2 * h, 2 * w)


def forward(p, x):
    t = {"x": x / np.float32(16)}
    t["c1"], t["cols1"] = conv(t["x"], p["conv1.w"], p["conv1.b"])
    t["p1"], t["at1"] = pool(np.maximum(t["c1"], 0))
    t["c2"], t["cols2"] = conv(t["p1"], p["conv2.w"], p["conv2.b"])
    t["p2"], t["at2"] = pool(np.maximum(t["c2"], 0))
    t["flat"] = t["p2"].reshape(len(x), -1)
    t["h"] = t["flat"] @ p["fc1.w"].T + p["fc1.b"]
    t["z"] = np.maximum(t["h"], 0) @ p["fc2.w"].T + p["fc2.b"]
    e = np.exp(t["z"] - t["z"].max(1, keepdims=True))
    t["prob"] = e / e.sum(1, keepdims=True)
    return t


def backward(p, t, y):
    g = {}
    dz = t["prob"].copy()
    dz[np.arange(len(y)), y] -= 1
    dz /= len(y)
    a = np.maximum(t["h"], 0)
    g["fc2.w"], g["fc2.b"] = dz.T @ a, dz.sum(0)
    dh = (dz @ p["fc2.w"]) * (t["h"] > 0)
    g["fc1.w"], g["fc1.b"] = dh.T @ t["flat"], dh.sum(0)
    d = (dh @ p["fc1.w"]).reshape(t["p2"].shape)
    d = pool_back(d, t["at2"]) * (t["c2"] > 0)
    d, g["conv2.w"], g["conv2.b"] = conv_back(d, t["cols2"], p["conv2.w"])
    d = pool_back(d, t["at1"]) * (t["c1"] > 0)
    _, g["conv1.w"], g["conv1.b"] = conv_back(d, t["cols1"], p["conv1.w"])
    return g


def shifted(x, rng):
    """Each image moved by -1, 0 or 1 pixels both ways: more training data."""
    out = np.zeros_like(x)
    for i, (dy, dx) in enumerate(rng.integers(-1, 2, (len(x), 2))):
        src = np.pad(x[i], ((0, 0), (1, 1), (1, 1)))
        out[i] = src[:, 1 + dy:9 + dy, 1 + dx:9 + dx]
    return out


def train(p, x, y, rng):
    """Adam, with a rate that falls to zero along a cosine."""
    m = {k: np.zeros_like(v) for k, v in p.items()}
    v = {k: np.zeros_like(w) for k, w in p.items()}
    steps, step = EPOCHS * (len(x) // BATCH), 0
    for epoch in range(EPOCHS):
        order = rng.permutation(len(x))
        for at in range(0, len(x) - BATCH + 1, BATCH):
            pick = order[at:at + BATCH]
            batch = shifted(x[pick], rng)
            step += 1
            rate = 2e-3 * 0.5 * (1 + np.cos(np.pi * step / steps))
            for k, g in backward(p, forward(p, batch), y[pick]).items():
                m[k] = 0.9 * m[k] + 0.1 * g
                v[k] = 0.999 * v[k] + 0.001 * g * g
                fix = np.sqrt(1 - 0.999 ** step) / (1 - 0.9 ** step)
                p[k] = (p[k] - rate * fix * m[k] /
                        (np.sqrt(v[k]) + 1e-8)).astype(np.float32)
    return p


def accuracy(p, x, y):
    return float((forward(p, x)["prob"].argmax(1) == y).mean())


def export(p, path):
    """The same network as ONNX; `digit` is the likeliest class."""
    node = helper.make_node
    nodes = [
        node("Mul", ["image", "scale"], ["scaled"], "scale_pixels"),
        node("Conv", ["scaled", "conv1.w", "conv1.b"], ["c1"], "conv1",
             kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("Relu", ["c1"], ["r1"], "relu1"),
        node("MaxPool", ["r1"], ["p1"], "pool1", kernel_shape=[2, 2],
             strides=[2, 2]),
        node("Conv", ["p1", "conv2.w", "conv2.b"], ["c2"], "conv2",
             kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("Relu", ["c2"], ["r2"], "relu2"),
        node("MaxPool", ["r2"], ["p2"], "pool2", kernel_shape=[2, 2],
             strides=[2, 2]),
        node("Flatten", ["p2"], ["flat"], "flatten", axis=1),
        node("Gemm", ["flat", "fc1.w", "fc1.b"], ["h"], "fc1", transB=1),
        node("Relu", ["h"], ["r3"], "relu3"),
        node("Gemm", ["r3", "fc2.w", "fc2.b"], ["logits"], "fc2", transB=1),
        node("Softmax", ["logits"], ["probabilities"], "softmax", axis=1),
        node("ArgMax", ["probabilities"], ["digit"], "digit", axis=1,
             keepdims=0),
    ]
    weights = [numpy_helper.from_array(p[k], k) for k in sorted(p)]
    weights.append(numpy_helper.from_array(np.float32(1 / 16), "scale"))
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "digits",
        [info("image", TensorProto.FLOAT, ["N", 1, 8, 8])],
        [info("digit", TensorProto.INT64, ["N"]),
         info("probabilities", TensorProto.FLOAT, ["N", 10])], weights,
        doc_string="Handwritten digits, 8 x 8 pixels of 0 (paper) to 16 (ink)")
    model = helper.make_model(graph, producer_name="quern-examples",
                              opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.checker.check_model(model, full_check=True)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(model.SerializeToString())


def request(p, x, y):
    """The first held-out image that is surely a seven."""
    prob = forward(p, x)["prob"]
    at = next(i for i in range(len(y)) if y[i] == 7 and prob[i, 7] > 0.99)
    rows = [[int(v) for v in row] for row in x[at, 0]]
    body = json.dumps({"inputs": {"image": [[rows]]}}, separators=(",", ":"))
    (HERE / "request.json").write_text(body + "\n")


def main():
    rng = np.random.default_rng(SEED)
    (x, y), (held_x, held_y) = load(rng)
    p = train(init(rng), x, y, rng)
    print(f"training {accuracy(p, x, y):.4f} of {len(y)}, "
          f"held out {accuracy(p, held_x, held_y):.4f} of {len(held_y)}")
    export(p, HERE / "1" / "model.onnx")
    request(p, held_x, held_y)


if __name__ == "__main__":
    main()
