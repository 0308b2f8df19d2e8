#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What ptxas says of our kernels, as Markdown: registers, static shared memory,
# stack and spills of each. Reads what the build keeps beside the images.
#
#   ptxas.sh [DIRECTORY [ARCHITECTURE]]      build/cuda sm_90
#
# Ends with 1 if a kernel spills, or if an image has no report.
set -eu
dir=${1:-build/cuda}
arch=${2:-sm_90}
cd "$(dirname "$0")/../.."

# families whose kernels are listed one by one
listed="softmax norm layernorm attention attention_mma strided reduce argmax gather chain"

families=$(sed -n '/define QN_CUDA_IMAGES/,/[^\\]$/s/.*X(\([a-z_0-9]*\)).*/\1/p' \
    runtime/cuda/tables.h)
[ -n "$families" ] || { echo "ptxas: no families in tables.h" >&2; exit 1; }
rows=$(mktemp)
trap 'rm -f "$rows"' EXIT

# family, function, registers, shared, stack, spill stores, spill loads, kernel?
for family in $families; do
    if ! [ -s "$dir/$family.ptxas" ]; then
        echo "ptxas: $dir/$family.ptxas is missing: remove $dir, then make cuda" >&2
        exit 1
    fi
    awk -v family="$family" -v arch="'$arch'" '
        function flush(f) {
            for (f in seen)
                print family, f, regs[f] + 0, shared[f] + 0, stack[f] + 0,
                      stores[f] + 0, loads[f] + 0, f in entry
        }
        function number(text) {
            return match($0, "[0-9]+ " text) ? substr($0, RSTART) + 0 : 0
        }
        /Compiling entry function/ {
            split($0, part, "\047")
            now = part[2]
            mine = $NF == arch
            if (mine) { seen[now]; entry[now] }
        }
        /Function properties for/ { props = $NF }
        mine && /bytes stack frame/ {
            seen[props]
            stack[props] = number("bytes stack frame")
            stores[props] = number("bytes spill stores")
            loads[props] = number("bytes spill loads")
        }
        mine && / Used [0-9]+ registers/ {
            match($0, "Used [0-9]+")
            regs[now] = substr($0, RSTART + 5) + 0
            shared[now] = number("bytes smem")
        }
        END { flush() }' "$dir/$family.ptxas" >>"$rows"
    if ! grep -q "^$family .* 1\$" "$rows"; then
        echo "ptxas: $dir/$family.ptxas has no kernel for $arch" >&2
        exit 1
    fi
done
sort -o "$rows" "$rows"

version=$("${NVCC:-nvcc}" --version 2>/dev/null | sed -n 's/.*, \(V[0-9.]*\)$/\1/p')
cat <<END
<!-- from: sh tests/cuda/ptxas.sh >tests/cuda/PTXAS.md -->
# What ptxas says

$(LC_ALL=C date -u '+%-d %B %Y'), nvcc ${version:-of an unknown version}, $arch. Registers of a
thread; the rest in bytes. *Shared* is static: what a launch asks for comes on top. A stack
frame that is no spill holds arrays that are indexed at run time.

## Families

| family | kernels | registers, most | shared, most | stack, most | spill stores | spill loads |
|---|---:|---:|---:|---:|---:|---:|
END
awk '
    { n[$1] += $8; st[$1] += $6; ld[$1] += $7; f[$1]
      if ($3 > r[$1]) r[$1] = $3
      if ($4 > s[$1]) s[$1] = $4
      if ($5 > k[$1]) k[$1] = $5 }
    END { for (x in f)
        printf "| %s | %d | %d | %d | %d | %d | %d |\n", x, n[x], r[x], s[x],
               k[x], st[x], ld[x] | "sort"
      close("sort")
      for (x in f) { all += n[x]; stores += st[x]; loads += ld[x] }
      printf "| all | %d | | | | %d | %d |\n", all, stores, loads }' "$rows"
for family in $listed; do
    printf '\n## %s\n\n| function | registers | shared | stack | spills |\n' "$family"
    echo '|---|---:|---:|---:|---:|'
    awk -v family="$family" '$1 == family {
        printf "| `%s` | %s | %d | %d | %d |\n", $2, $8 ? $3 : "", $4, $5,
               $6 + $7 }' "$rows"
done
spilled=$(awk '$6 + $7 > 0 { print $1 "/" $2 }' "$rows")
if [ -n "$spilled" ]; then
    echo "ptxas: these spill on $arch:" $spilled >&2
    exit 1
fi
