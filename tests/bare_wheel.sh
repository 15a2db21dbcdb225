#!/usr/bin/env bash
# Uses the wheel of dist/ where nothing is installed: in a fresh Debian root with python3 and pip
# only, as a user would.
#   tests/bare_wheel.sh MODEL [SUITE]
# MODEL is a folder that `nystrom predict` takes. Needs root and debootstrap. The mirrors and the
# settings of apt and pip are this machine's own.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly model=${1:?a trained model} suite=${2:-bookworm}
readonly base=build/bare/$suite-python root=build/bare/root-wheel

# Mounts are this script's own and end with it.
[[ ${NYSTROM_BARE_WHEEL:-} ]] ||
  NYSTROM_BARE_WHEEL=1 exec unshare --mount --propagation private "$0" "$@"

say() { echo "bare wheel: $*"; }
# Settings with which pip reaches its index.
mapfile -t pip_settings < <(env | grep -E '^(PIP_|https?_proxy=|HTTPS?_PROXY=|SSL_CERT_FILE=)')
# Runs a command of the user in the root: without the rest of this machine's environment.
inside() {
  env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \
    "${pip_settings[@]}" chroot "$root" bash -ec "cd /root; $1"
}

mkdir -p build/bare
if [[ ! -f $base/complete ]]; then
  say "debootstrap $suite, with python3 and pip"
  rm -rf "$base"
  mirror=$(apt-get indextargets --format '$(SITE)' "Codename: $suite" 'Created-By: Packages' |
    head -n 1)
  [[ $mirror ]] || { say "the apt configuration of this machine has no mirror of $suite"; exit 77; }
  # --include takes no recommended packages, so pip comes without compilers.
  debootstrap --variant=minbase --include=python3,python3-pip,python3-venv "$suite" "$base" \
    "$mirror" > build/bare/debootstrap-python.log
  touch "$base/complete"
fi
rm -rf "$root"
cp -a "$base" "$root"
mount -t proc proc "$root/proc"
cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
[[ ! -f /etc/pip.conf ]] || cp -L /etc/pip.conf "$root/etc/"
cp -rL /etc/ssl/certs "$root/etc/ssl/" 2> /dev/null || true
cp -rL "$model" "$root/root/model"
cp dist/nystrom-*.whl "$root/root/"
cp -r examples "$root/root/"

begin=$EPOCHREALTIME
inside 'python3 -m venv venv && venv/bin/pip install --quiet nystrom-*.whl
  venv/bin/python -c "
import nystrom
for fill in nystrom.load(\"model\").fill_mask(\"The ship sailed on the [MASK].\", top_k=3):
    print(fill[\"score\"], fill[\"sequence\"])"'
say "from the installation to the first prediction: $(
  echo "$EPOCHREALTIME $begin" | awk '{ printf "%.1f s", $1 - $2 }')"

inside 'PATH=/root/venv/bin:$PATH
  nystrom --version
  nystrom predict model "The ship sailed on the [MASK]." --top-k 1
  nystrom config quickstart > my.yaml
  nystrom pretrain my.yaml --set training.steps=5 --set schedule.warmup_steps=2 --quiet
  nystrom predict runs/quickstart "The ship sailed on the [MASK]." --top-k 1
  python -c "import nystrom; nystrom.pretrain(\"my.yaml\", run_dir=\"runs/more\", quiet=True,
    training={\"steps\": 5}, schedule={\"warmup_steps\": 2})"
  [[ -d runs/more/checkpoints/step-5 ]]'
say "passed"
