#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes models/examples-split/mlp: one network as a file, and cut over two ranks.

    hidden  = Relu(x W1 + b1)     W1 by columns: each rank has half of hidden
    logits  = hidden W2 + b2      W2 by rows: each rank has a share of the sum
    AllReduce                     the only exchange
    answer  = Softmax(logits)

    split.py            write the folder (needs numpy, onnx)
    split.py --check    compare rank0.onnx and rank1.onnx, run by onnxruntime up to
                        the exchange and added, with model.onnx
"""
import json
import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = pathlib.Path(__file__).resolve().parent
FOLDER = HERE.parent.parent / "models" / "examples-split" / "mlp"
INPUTS, HIDDEN, OUTPUTS, RANKS = 16, 32, 6, 2


def weights():
    rng = np.random.default_rng(11)

    def of(*shape):
        return (rng.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)

    return of(INPUTS, HIDDEN), of(HIDDEN), of(HIDDEN, OUTPUTS), of(OUTPUTS)


def network(w1, b1, w2, b2, exchange):
    nodes = [
        helper.make_node("MatMul", ["x", "W1"], ["h0"], "columns"),
        helper.make_node("Add", ["h0", "b1"], ["h1"], "bias"),
        helper.make_node("Relu", ["h1"], ["hidden"], "relu"),
        helper.make_node("MatMul", ["hidden", "W2"], ["share"], "rows"),
    ]
    last = "share"
    if exchange:
        nodes.append(helper.make_node("AllReduce", ["share"], ["sum"], "sum",
                                      domain="ai.quern", op="sum"))
        last = "sum"
    nodes += [
        helper.make_node("Add", [last, "b2"], ["logits"], "bias2"),
        helper.make_node("Softmax", ["logits"], ["answer"], "softmax", axis=-1),
    ]
    named = {"W1": w1, "b1": b1, "W2": w2, "b2": b2}
    graph = helper.make_graph(
        nodes, "mlp",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", INPUTS])],
        [helper.make_tensor_value_info("answer", TensorProto.FLOAT,
                                       ["N", OUTPUTS])],
        [numpy_helper.from_array(v, k) for k, v in named.items()])
    imports = [helper.make_opsetid("", 17)]
    if exchange:
        imports.append(helper.make_opsetid("ai.quern", 1))
    model = helper.make_model(graph, opset_imports=imports, ir_version=8,
                              producer_name="quern tests/oracle/split.py")
    return model


def write():
    w1, b1, w2, b2 = weights()
    (FOLDER / "1").mkdir(parents=True, exist_ok=True)
    onnx.save(network(w1, b1, w2, b2, False), FOLDER / "whole.onnx")
    piece = HIDDEN // RANKS
    for r in range(RANKS):
        cut = slice(r * piece, (r + 1) * piece)
        onnx.save(network(w1[:, cut], b1[cut], w2[cut], b2, True),
                  FOLDER / "1" / f"rank{r}.onnx")
    config = {"ranks": [f"rank{r}.onnx" for r in range(RANKS)]}
    (FOLDER / "config.json").write_text(json.dumps(config) + "\n")
    x = np.round(np.random.default_rng(12).standard_normal((1, INPUTS)), 3)
    request = {"inputs": {"x": x.tolist()}}
    (FOLDER / "request.json").write_text(json.dumps(request) + "\n")


def check():
    import onnxruntime

    def run(model, x):
        session = onnxruntime.InferenceSession(model.SerializeToString())
        return session.run(None, {"x": x})[0]

    x = np.random.default_rng(13).standard_normal((5, INPUTS)).astype(np.float32)
    whole = onnx.load(FOLDER / "whole.onnx")
    total = 0
    for r in range(RANKS):
        part = onnx.load(FOLDER / "1" / f"rank{r}.onnx")
        del part.graph.node[4:]
        part.graph.output[0].name = "share"
        total = total + run(part, x)
    logits = total + weights()[3]
    e = np.exp(logits - logits.max(axis=-1, keepdims=True))
    np.testing.assert_allclose(run(whole, x), e / e.sum(axis=-1, keepdims=True),
                               rtol=1e-5, atol=1e-6)
    print("both agree")


if __name__ == "__main__":
    check() if sys.argv[1:] == ["--check"] else write()
