# SPDX-License-Identifier: Apache-2.0
"""Write tests/cast_checksums.inc: conversions of every code of a format.

Run: python3 tests/cast_checksums.py > tests/cast_checksums.inc
Needs numpy and ml_dtypes; the table says which versions it came from. The
inputs are made the same way in tests/test_cast.c: see there.
"""
import ml_dtypes
import numpy as np

NUMBER = {"F16": 10, "BF16": 16, "F8E4M3FN": 17, "F8E4M3FNUZ": 18, "F8E5M2": 19,
          "F8E5M2FNUZ": 20, "F4E2M1": 23, "F8E8M0": 24}
TYPE = {"F16": np.float16, "BF16": ml_dtypes.bfloat16,
        "F8E4M3FN": ml_dtypes.float8_e4m3fn,
        "F8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
        "F8E5M2": ml_dtypes.float8_e5m2,
        "F8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
        "F4E2M1": ml_dtypes.float4_e2m1fn, "F8E8M0": ml_dtypes.float8_e8m0fnu}
F8 = ("F8E4M3FN", "F8E4M3FNUZ", "F8E5M2", "F8E5M2FNUZ")


def checksum(values, bits):
    """FNV-1a of the elements' bytes, all of them ones where a NaN is."""
    ones = np.iinfo(bits.dtype).max
    raw = np.where(np.isnan(values.astype(np.float64)), ones, bits)
    h = 0xcbf29ce484222325
    for b in raw.astype(bits.dtype).tobytes():
        h = (h ^ b) * 0x100000001b3 & 0xffffffffffffffff
    return h


def as_bits(values):
    return values.view({1: np.uint8, 2: np.uint16, 4: np.uint32}[
        values.dtype.itemsize])


def codes(name):
    n = {"F4E2M1": 16}.get(name, 1 << 8 * np.dtype(TYPE[name]).itemsize)
    return np.arange(n, dtype=np.uint16 if n > 256 else np.uint8).view(TYPE[name])


def floats():
    high = np.arange(65536, dtype=np.uint32) << 16
    low = np.array([0, 0x7fff, 0x8000, 0x8001], np.uint32)
    return (high[:, None] | low[None, :]).ravel().view(np.float32)


def doubles():
    """A float that is halfway for bfloat16, and its neighbours in binary64."""
    x = ((np.arange(65536, dtype=np.uint32) << 16) | 0x8000).view(np.float32)
    x = x[np.isfinite(x)].astype(np.float64).view(np.int64)
    return (x[:, None] + np.array([-1, 0, 1])[None, :]).ravel().view(np.float64)


def to_bf16(x):
    """ml_dtypes goes by way of binary32 and rounds twice; here once."""
    f = x.astype(np.float32)
    halfway = (f.view(np.uint32) & 0xffff) == 0x8000
    away = np.abs(x) - np.abs(f.astype(np.float64))
    step = np.where(halfway & (away != 0), np.sign(away), 0).astype(np.int64)
    return (f.view(np.uint32) + step).astype(np.uint32).view(
        np.float32).astype(ml_dtypes.bfloat16)


def row(source, to, wrap, values):
    print(f"{{ QN_{source}, QN_{to}, {wrap}, "
          f"UINT64_C(0x{checksum(values, as_bits(values)):016x}) }},")


np.seterr(all="ignore")
print("/* SPDX-License-Identifier: Apache-2.0 */")
print("/* Written by cast_checksums.py with numpy " + np.__version__ +
      ", ml_dtypes " + ml_dtypes.__version__ + ". */")
for name in NUMBER:
    row(name, "F32", 0, codes(name).astype(np.float32))
for name in ("F16", "BF16"):
    row("F32", name, 0, floats().astype(TYPE[name]))
for name in F8:
    limit = float(ml_dtypes.finfo(TYPE[name]).max)
    row("F32", name, 0, np.clip(floats(), -limit, limit).astype(TYPE[name]))
    row("F32", name, 1, floats().astype(TYPE[name]))
row("F64", "F16", 0, doubles().astype(np.float16))
row("F64", "BF16", 0, to_bf16(doubles()))
