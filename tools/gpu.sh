# ./dev gpu. Read by dev, whose functions it uses.

# Runs one of the two calls to a GPU machine (bench/gpu.py), in a build or in a bundle on a machine
# without compilers. --dry-run needs no GPU.
command_gpu() {
  local folder=build/cuda python=python3
  [[ ${1:-} == first || ${1:-} == second ]] ||
    fail "gpu: expected first or second, got '${1:-}'; CONTRIBUTING.md says when"
  if [[ " $* " == *' --dry-run '* ]]; then
    build_preset release nystrom nystrom_emulated cuda_emulated_tests
    folder=build/release
    [[ ! -x build/interop-newest/bin/python ]] || python=build/interop-newest/bin/python
  elif [[ -f CMakeLists.txt ]]; then
    build_preset cuda nystrom cuda_tests
  else
    folder=.
  fi
  exec python3 bench/gpu.py "$@" --folder "$folder" --python "$(command -v "$python")"
}
