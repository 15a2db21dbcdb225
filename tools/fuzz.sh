# ./dev fuzz. Read by dev, whose functions it uses.

# An input that needs more than a second or 512 MB is a finding, and so is a leak. The quarantine of
# the address sanitizer counts as memory.
readonly fuzz_limits=(-timeout=1 -rss_limit_mb=512 -malloc_limit_mb=512 -detect_leaks=1)
readonly fuzz_asan_options=quarantine_size_mb=32

# Sets `corpora`, the input folders of a target: the growing local corpus and the committed one.
fuzz_corpora() {
  corpora=("build/fuzz/corpus/$1" "tests/fuzz/corpus/$1")
  mkdir -p "${corpora[0]}"
}

# fuzz_one TARGET SECONDS SEED: runs every known input first, then new ones. Findings stay in
# build/fuzz/NAME.found.
fuzz_one() {
  local name log found corpora code=0
  name=$(basename "$1" _fuzz)
  log=build/fuzz/$name.log found=build/fuzz/$name.found
  mkdir -p "$found" && rm -f "$found"/timeout-*
  fuzz_corpora "$name"
  local command=(env ASAN_OPTIONS="$fuzz_asan_options" OMP_NUM_THREADS=1 "$1"
    "${fuzz_limits[@]}" -artifact_prefix="$found/")
  at_fixed_addresses "${command[@]}" -max_total_time="$2" -seed="$3" \
    "${corpora[@]}" &> "$log" || code=$?
  # 70 means too slow. The limit is wall-clock time, so a stalled machine is not a finding: the
  # input gets a second try alone.
  if [[ $code == 70 ]] && at_fixed_addresses "${command[@]}" "$found"/timeout-* &>> "$log"; then
    rm "$found"/timeout-*
    say "$name: an input that took more than a second did not when tried again"
    return
  fi
  [[ $code == 0 ]] || cat "$log"
  say "$name: $(grep -a '^Done' "$log" || echo "failed; the input is in $found, the log in $log")"
  return $code
}

command_fuzz() {
  local seconds=${1:-60} seed=${2:-0} target running=0 code=0
  [[ $seconds =~ ^[1-9][0-9]*$ || $seconds == --coverage ]] ||
    fail "fuzz: expected seconds or --coverage, got '$seconds'"
  [[ $seed =~ ^[0-9]+$ ]] || fail "fuzz: expected a number as the seed, got '$seed'"
  install_packages "${build_packages[@]}" "${clang_packages[@]}"
  if [[ $seconds == --coverage ]]; then
    fuzz_coverage
    return
  fi
  build_preset fuzz fuzz_targets
  for target in build/fuzz/*_fuzz; do
    if ((running == $(jobs))); then
      wait -n || code=1
      running=$((running - 1))
    fi
    fuzz_one "$target" "$seconds" "$seed" &
    running=$((running + 1))
  done
  for ((; running > 0; --running)); do wait -n || code=1; done
  return $code
}

# Prints how many lines of each reader the known inputs reach. Fails below 95 per cent.
fuzz_coverage() {
  local build=build/fuzz-coverage target name corpora objects=()
  build_preset fuzz-coverage fuzz_targets
  rm -f "$build"/*.profraw
  for target in "$build"/*_fuzz; do
    name=$(basename "$target" _fuzz)
    fuzz_corpora "$name"
    LLVM_PROFILE_FILE=$build/$name.profraw "$target" -runs=0 "${corpora[@]}" \
      &> "$build/$name.log" || fail "$name failed; see $build/$name.log"
    objects+=(-object "$target")
  done
  llvm-profdata-14 merge -o "$build/coverage.profdata" "$build"/*.profraw
  # It warns about inline functions that some units do not use.
  llvm-cov-14 report -instr-profile "$build/coverage.profdata" "${objects[@]:1}" \
    2> "$build/llvm-cov.log" | awk '
    NR == FNR { if (!/^#/) reader[$1] = 1; next }
    $1 in reader {
      printf "%7s  %3d of %3d lines  %s\n", $10, $8 - $9, $8, $1
      if ($10 + 0 < 95) low = low " " $1
      delete reader[$1]
    }
    END {
      for (name in reader) low = low " " name
      if (low) { print "dev: less than 95 % of the lines:" low; exit 1 }
    }' tests/fuzz/readers.txt -
}
