#!/usr/bin/env bash
# Two network namespaces with a link between them act as two hosts. A run over the link gives the
# same bits as one process. A run that loses the link ends in time and can be resumed. Usage:
# two_hosts.sh FOLDER_OF_NYSTROM. Exits with 77 and the reason when namespaces are not permitted.
set -euo pipefail

nystrom=$(realpath "$1")/nystrom
id=$$
a=nystrom-a-$id b=nystrom-b-$id
net=10.213.$((id % 250))
folder=$(mktemp -d)

skip() {
  echo "skipped: $*"
  exit 77
}
fail() {
  echo "failed: $*" >&2
  cat "$folder/log" >&2
  exit 1
}
clean_up() {
  ip netns pids "$b" 2> /dev/null | xargs -r kill -9 2> /dev/null || true
  ip netns pids "$a" 2> /dev/null | xargs -r kill -9 2> /dev/null || true
  ip netns del "$a" 2> /dev/null || true
  ip netns del "$b" 2> /dev/null || true
  rm -rf "$folder"
}
trap clean_up EXIT

for tool in ip mpirun unshare; do
  command -v $tool > /dev/null || skip "$tool is not installed"
done
ip netns add "$a" 2> "$folder/log" ||
  skip "no right to make network namespaces: $(cat "$folder/log")"
ip netns add "$b"
ip -n "$a" link add veth0 type veth peer name veth0 netns "$b" 2> "$folder/log" ||
  skip "no right to make links: $(cat "$folder/log")"
ip -n "$a" addr add "$net.1/24" dev veth0
ip -n "$b" addr add "$net.2/24" dev veth0
for host in "$a" "$b"; do
  ip -n "$host" link set lo up
  ip -n "$host" link set veth0 up
done

# Replaces ssh: mpirun calls it as "agent HOST COMMAND…".
cat > "$folder/agent" << END
#!/bin/sh
shift
exec ip netns exec $b unshare --uts sh -c "hostname host-b; \$*"
END
chmod +x "$folder/agent"

cat > "$folder/run.yaml" << END
model: {hidden_size: 16, num_hidden_layers: 2, num_attention_heads: 2, intermediate_size: 32,
  max_position_embeddings: 32, attention: {num_landmarks: 4, conv_kernel_size: 5}}
tokenizer: {train: {vocab_size: 32}}
data: {train: [text.txt], validation_fraction: 0.1, documents: lines,
  sequence_length: 32, cache: cache}
schedule: {warmup_steps: 2, decay: constant}
training: {steps: 20, batch_size: 8, micro_batch_size: 2, dtype: f32,
  deterministic: true, timeout: 3}
evaluation: {every: 1000}
checkpoint: {every: 5}
END
words=(the sea was calm and old ships sailed home under pale stars while men sang)
for ((line = 0; line < 300; ++line)); do
  for ((word = 0; word < 12; ++word)); do
    printf '%s ' "${words[$(((line * line * 7 + word * word * 5 + line * word) % 15))]}"
  done
  echo
done > "$folder/text.txt"
cd "$folder"

export ASAN_OPTIONS=detect_leaks=0 # Open MPI leaks
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_NUM_THREADS=1
export OMPI_MCA_hwloc_base_binding_policy=none
# train RUN_DIR STEPS: runs one process on each host.
train() {
  ip netns exec "$a" unshare --uts sh -c "hostname host-a; exec timeout -k 5 60 mpirun \
    --mca plm_rsh_agent $folder/agent --mca btl tcp,self --mca btl_tcp_if_include $net.0/24 \
    --mca oob_tcp_if_include $net.0/24 -np 2 --host $net.1:1,$net.2:1 \
    $nystrom pretrain run.yaml --threads 1 --set run_dir=$1 --set training.steps=$2" > log 2>&1
}
checksum() {
  local file=$1/checkpoints/step-20/model.safetensors
  xxh128sum < "$file" 2> /dev/null || sha256sum < "$file"
}

"$nystrom" pretrain run.yaml --threads 1 --set run_dir=alone > log 2>&1 || fail "one process"
train both 20 || fail "a run over the link"
[[ $(checksum both) == "$(checksum alone)" ]] || fail "other weights over the link"

train cut 1000000 &
job=$!
for ((i = 0; i < 600; ++i)); do
  [[ ! -d cut/checkpoints/step-5 ]] || break
  sleep 0.05
done
[[ -d cut/checkpoints/step-5 ]] || fail "no checkpoint before the link is cut"
ip -n "$b" link set veth0 down
start=$SECONDS
# Succeeds while processes of nystrom run on either host.
running() {
  local pid
  for pid in $(ip netns pids "$a") $(ip netns pids "$b"); do
    [[ $(cat "/proc/$pid/comm" 2> /dev/null) != nystrom ]] || return 0
  done
  return 1
}
while running; do
  [[ $((SECONDS - start)) -lt 30 ]] || fail "still running after 30 seconds"
  sleep 0.2
done
took=$((SECONDS - start))
grep "nystrom: .*(training.timeout)" log || fail "nobody said what happened"
# mpirun itself would wait for its part on the other host until TCP gives up.
for host in "$a" "$b"; do ip netns pids "$host" | xargs -r kill -9 2> /dev/null || true; done
code=0
wait $job 2> /dev/null || code=$?
[[ $code != 0 ]] || fail "a run without its link ended well"
ip -n "$b" link set veth0 up
newest=$(sed 's/step-//' cut/checkpoints/latest)
train cut $((newest + 1)) || fail "going on after the link came back"
grep -q "resuming at step $newest" log || fail "going on from somewhere else"
echo "a run over the link has the bits of one process"
echo "the run that lost the link ended after $took seconds and resumed at step $newest"
