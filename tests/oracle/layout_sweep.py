#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An independent look at memory layouts: `quern inspect --layout FILE` or
`quern plan --output FILE` (id, lower, upper, size, ..., offset; half-open
lifetimes). No two rows that are alive at once may overlap.

    layout_sweep.py FILE.csv [FILE.csv ...]
"""
import csv
import sys


def check(path):
    with open(path, newline="") as f:
        rows = [{k: v if k == "id" else int(v) for k, v in r.items()}
                for r in csv.DictReader(f)]
    events = sorted([(r["lower"], 1, i) for i, r in enumerate(rows)] +
                    [(r["upper"], 0, i) for i, r in enumerate(rows)])
    live, most, peak = set(), 0, 0
    for _, born, i in events:
        if not born:
            live.discard(i)
            continue
        a = rows[i]
        for k in live:
            b = rows[k]
            if a["offset"] < b["offset"] + b["size"] and \
                    b["offset"] < a["offset"] + a["size"]:
                raise SystemExit(f"{path}: {a} overlaps {b}")
        live.add(i)
        most = max(most, sum(rows[k]["size"] for k in live))
        peak = max(peak, a["offset"] + a["size"])
    print(f"{path}: {len(rows)} buffers, {most} bytes alive at most, {peak} "
          f"bytes laid out, ratio {peak / max(most, 1):.4f}")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        check(name)
