#!/bin/sh
# Speed on an accelerator, within 8 minutes on one H200 (jax 0.11, Python 3.12).
#
#   sh experiments/bench/device.sh                 # OUT=folder takes the results, docs/results by default
#   sh experiments/bench/device.sh --tiny          # the same code on a CPU, with a tiny model and short runs
#
# It makes an environment of its own (VENV, .venv-device by default) unless PYTHON names one that has ragen_jax already.
# Each shape is a process of its own with a limit, so that one that fails or runs long does not cost the others.
set -eu
cd "$(dirname "$0")/../.."
out=${OUT:-docs/results}
mkdir -p "$out"
if [ "${1:-}" = "--tiny" ]; then
    exec "${PYTHON:-.venv/bin/python}" -m experiments.bench.device --tiny --out "$out/device.json"
fi
if [ -z "${PYTHON:-}" ]; then
    venv=${VENV:-.venv-device}
    [ -x "$venv/bin/python" ] || python3.12 -m venv "$venv"
    "$venv/bin/python" -m pip install -q --disable-pip-version-check -e '.[gpu]' 'jax[cuda13]>=0.11,<0.12'
    PYTHON=$venv/bin/python
fi
for shape in qwen2.5-0.5b qwen2.5-3b; do
    timeout -k 10 170 "$PYTHON" -m experiments.bench.device --model "$shape" --out "$out/device.json" ||
        echo "$shape ended with code $?" >&2
done
