#!/bin/sh
# Makes the virtual environments of the rivals that experiments.bench.step measures.
#
#   sh experiments/bench/rivals.sh [FOLDER] [PYTHON]
#
# They cannot share one environment: Tunix caps libraries that a current transformers needs. TRL wants torch for CPU; where
# pip finds only the CUDA build, name an index of CPU builds: PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu.
# FOLDER is .rivals by default (3 GB); the bench looks there, or where RAGEN_RIVALS points.
set -eu
folder=${1:-.rivals}
python=${2:-python3.11}
torch=${RAGEN_TORCH:-torch==2.13.0}

make_environment() { # name, packages
    name=$1
    shift
    [ -x "$folder/$name/bin/python" ] || "$python" -m venv "$folder/$name"
    "$folder/$name/bin/python" -m pip install -q --disable-pip-version-check "$@"
    "$folder/$name/bin/python" -m pip list --format=freeze >"$folder/$name/packages.txt"
}

make_environment trl "$torch" trl==1.16.0
make_environment tunix google-tunix==0.1.7
