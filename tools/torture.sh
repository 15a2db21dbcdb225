# ./dev torture. Read by dev, whose functions it uses.

# Repeats the randomized tests many times (drawn models and runs, kills, power loss, failing calls,
# other numbers of processes) and then fuzzes for a long time. Takes hours.
command_torture() {
  local rounds=${1:-20} seconds=${2:-3600} name
  local random='DrawnModels.*:*.KilledRuns*:*AnyMoment*:*EveryChange*'
  random+=':Replicas.*Flipped*:*PowerLoss.Loses*:TwoFailing*:RunLife.*'
  [[ "$rounds $seconds" =~ ^[1-9][0-9]*\ [1-9][0-9]*$ ]] ||
    fail "torture: expected how many times, and seconds, got '$rounds $seconds'"
  command_setup
  build_preset release
  for name in {nn,distributed,loop,objectives,cli,fault,run_life}_tests; do
    say "$name, $rounds times"
    NYSTROM_TEST_ROUNDS=$rounds OMP_WAIT_POLICY=passive "build/release/$name" --gtest_brief=1 \
      --gtest_filter="$random"
  done
  say "$((10 * rounds)) drawn runs"
  python3 tests/drawn_runs.py --runs $((10 * rounds)) --seed "$rounds"
  command_fuzz "$seconds"
}
