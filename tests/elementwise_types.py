# SPDX-License-Identifier: Apache-2.0
"""Write tests/elementwise_types.inc: element types of each operator version.

Run: python3 tests/elementwise_types.py > tests/elementwise_types.inc
Needs the Python package onnx; the table says which version it came from.
"""
import onnx

OPS = """Abs Acos Acosh Add And Asin Asinh Atan Atanh BitCast BitShift BitwiseAnd
BitwiseNot BitwiseOr BitwiseXor Cast CastLike Ceil Celu Clip Cos Cosh Div Elu
Equal Erf Exp Floor Gelu Greater GreaterOrEqual HardSigmoid HardSwish IsInf
IsNaN LeakyRelu Less LessOrEqual Log Max Mean Min Mish Mod Mul Neg Not Or PRelu
Pow Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign
Sqrt Sub Sum Swish Tan Tanh ThresholdedRelu Where Xor""".split()
BIT = {name.lower(): number for name, number in onnx.TensorProto.DataType.items()}


def mask(schema, i):
    if i >= len(schema.inputs):
        return 0
    types = schema.inputs[i].types
    return sum(1 << BIT[t[len("tensor("):-1]] for t in types)


rows = [s for s in onnx.defs.get_all_schemas_with_history()
        if s.domain == "" and s.name in OPS]
print("/* SPDX-License-Identifier: Apache-2.0 */")
print(f"/* Written by elementwise_types.py from onnx {onnx.__version__}:")
print(" * operator, first opset, types of inputs 0 to 2 (bit n: type n). */")
for s in sorted(rows, key=lambda s: (s.name, s.since_version)):
    masks = ", ".join(f"0x{mask(s, i):x}" for i in range(3))
    print(f'{{ "{s.name}", {s.since_version}, {{ {masks} }} }},')
