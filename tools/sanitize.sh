# ./dev sanitize. Read by dev, whose functions it uses.

# Runs code with its own threads under the thread sanitizer. Runs the same, kernels, gradients,
# models, data readers and save faults under the address sanitizer. `./dev test --asan` runs
# everything under that one.
command_sanitize() {
  local preset name programs
  command_setup
  for preset in tsan asan; do
    programs=(thread_tests)
    [[ $preset == tsan ]] || programs+=({core,autograd,nn,data,optim,config}_tests
      {state,fault}_tests)
    build_preset "$preset" "${programs[@]}"
    for name in "${programs[@]}"; do
      say "$name under $preset"
      OMP_WAIT_POLICY=passive at_fixed_addresses "build/$preset/$name" --gtest_brief=1
    done
  done
}
