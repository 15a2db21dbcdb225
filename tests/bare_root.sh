#!/usr/bin/env bash
# Uses a package of dist/ where nothing is installed, as a user would: in a fresh root of the
# machine's distribution, of another suite of its mirror, or of Ubuntu 24.04 (noble).
#   tests/bare_root.sh deb|bundle|wheel|wheel-cuda [SUITE]
# A wheel with CUDA is tried where there is neither driver nor CUDA: it computes on the CPU.
# Needs root, debootstrap, and a trained model in build/bare/model (./dev release makes it). The
# mirror and the settings of apt and pip are this machine's own.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
codename=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
readonly codename package=${1:?deb, bundle, wheel or wheel-cuda} suite=${2:-$codename}
readonly base=build/bare/$suite root=build/bare/root

# Mounts are this script's own and end with it.
[[ ${NYSTROM_BARE_ROOT:-} ]] ||
  NYSTROM_BARE_ROOT=1 exec unshare --mount --propagation private "$0" "$@"

say() { echo "bare root: $*"; }
# Settings with which pip reaches its index.
mapfile -t pip_settings < <(env | grep -E '^(PIP_|https?_proxy=|HTTPS?_PROXY=|SSL_CERT_FILE=)')
# Runs a command of the user in the root: without the rest of this machine's environment.
inside() {
  env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \
    DEBIAN_FRONTEND=noninteractive "${pip_settings[@]}" "${isolation[@]}" \
    chroot "$root" bash -ec "cd /root; $1"
}
isolation=()

if [[ ! -f $base/complete ]]; then
  say "debootstrap $suite"
  rm -rf "$base"
  mirror=$(apt-get indextargets --format '$(SITE)' "Codename: $codename" 'Created-By: Packages' |
    head -n 1)
  from=("$suite" "$base" "$mirror")
  # Debian's debootstrap knows no Ubuntu of 2024; its script for all of them is that of gutsy.
  [[ $suite != noble ]] ||
    from=(--components=main,universe noble "$base" http://archive.ubuntu.com/ubuntu gutsy)
  debootstrap --variant=minbase "${from[@]}" > build/bare/debootstrap.log ||
    { say "no root of $suite; see build/bare/debootstrap.log" && exit 1; }
  touch "$base/complete"
fi
rm -rf "$root"
cp -a "$base" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs sys "$root/sys"
mount -t devpts pts "$root/dev/pts"
cp -rL /etc/resolv.conf /etc/hosts "$root/etc/"
cp -r /etc/apt/apt.conf.d "$root/etc/apt/"
cp -r build/bare/model "$root/root/model"

# A package's part: it leaves `nystrom` on the path, after a first prediction.
case $package in
  deb)
    inside 'apt-get update -qq'
    cp dist/nystrom_*.deb "$root/root/"
    begin=$EPOCHREALTIME
    inside 'apt-get install -y -qq ./nystrom_*.deb > /dev/null
      nystrom predict model "The ship sailed on the [MASK]." --top-k 3'
    ;;
  bundle)
    isolation=(unshare --net)
    cp dist/nystrom-*-linux-"$(uname -m)".tar.gz "$root/root/"
    begin=$EPOCHREALTIME
    inside 'tar xzf nystrom-*.tar.gz && ln -s /root/nystrom-*/nystrom /usr/bin/nystrom
      nystrom predict model "The ship sailed on the [MASK]." --top-k 3'
    cp -r examples "$root/root/"
    ;;
  wheel | wheel-cuda)
    # Without recommended packages, so that pip comes without compilers.
    inside 'apt-get update -qq && apt-get install -y -qq --no-install-recommends \
      python3 python3-pip python3-venv > /dev/null'
    # After the packages, which bring certificates of their own.
    [[ ! -f /etc/pip.conf ]] || cp -L /etc/pip.conf "$root/etc/"
    cp -rL /etc/ssl/certs "$root/etc/ssl/" 2> /dev/null || true
    case $package in
      wheel) cp dist/nystrom-*[0-9]-cp*.whl "$root/root/" ;;
      *) cp dist/nystrom-*+cuda-cp*.whl "$root/root/" ;;
    esac
    begin=$EPOCHREALTIME
    inside 'python3 -m venv venv && venv/bin/pip install --quiet nystrom-*.whl
      venv/bin/python -c "
import nystrom
for fill in nystrom.load(\"model\").fill_mask(\"The ship sailed on the [MASK].\", top_k=3):
    print(fill[\"score\"], fill[\"sequence\"])"
      ln -s /root/venv/bin/nystrom /usr/bin/nystrom'
    cp -r examples "$root/root/"
    ;;
  *) say "unknown package '$package'; known: deb, bundle, wheel, wheel-cuda" && exit 2 ;;
esac
say "from the installation to the first prediction: $(
  echo "$EPOCHREALTIME $begin" | awk '{ printf "%.1f s", $1 - $2 }')"

inside 'nystrom --version
  [[ -d examples ]] || cp -r /usr/share/nystrom/examples .
  nystrom config quickstart > my.yaml
  nystrom pretrain my.yaml --set steps=5 --set warmup_steps=1 --set batch_size=4 \
    --set micro_batch_size=4 --quiet
  nystrom predict runs/quickstart "The ship sailed on the [MASK]." --top-k 1'

if [[ $package == wheel* ]]; then
  inside 'venv/bin/python -c "import nystrom; nystrom.pretrain(\"my.yaml\", run_dir=\"runs/more\",
    quiet=True, training={\"steps\": 5}, schedule={\"warmup_steps\": 2})"
    [[ -d runs/more/checkpoints/step-5 ]]'
fi
if [[ $package == wheel-cuda ]]; then
  inside 'message="no GPU can be used: no NVIDIA driver"
    if nystrom predict model "The [MASK]." --device cuda 2> error.txt; then exit 1; fi
    cat error.txt && [[ $(wc -l < error.txt) == 1 ]] && grep -q "$message" error.txt
    venv/bin/python -c "
import nystrom
try:
    nystrom.load(\"model\", device=\"cuda\").encode(\"the sea\")
except nystrom.InputError as error:
    assert \"$message\" in str(error), error
else:
    raise SystemExit(\"expected an error\")"'
fi
if [[ $package == deb ]]; then
  inside 'apt-get install -y -qq --no-install-recommends man-db bash-completion zsh fish > /dev/null
    man nystrom | grep -q "nystrom pretrain .OPTIONS. CONFIG"
    bash -c ". /usr/share/bash-completion/bash_completion; _completion_loader nystrom || :
      complete -p nystrom"
    fish -c "complete -C \"nystrom pre\"" | grep pretrain
    zsh -fc "autoload -U compinit && compinit && echo \$_comps[nystrom]" | grep _nystrom
    ldd /usr/lib/nystrom/libnystrom_mpi.so | grep -q "not found"
    apt-get install -y -qq --no-install-recommends openmpi-bin > /dev/null
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe -np 2 \
      nystrom pretrain my.yaml --set steps=5 --set warmup_steps=1 --set run_dir=runs/two \
      --set batch_size=4 --set micro_batch_size=2 --quiet
    apt-get remove -y -qq nystrom > /dev/null
    [[ ! -e /usr/share/nystrom && ! -e /usr/lib/nystrom ]]'
fi
say "$package: passed"
