# ./dev mutate. Read by dev, whose functions it uses.

# Mutation testing: changes one small thing at a time and checks that a test fails. See
# tests/tools/mutate.py.
command_mutate() {
  command_setup
  install_packages python3
  python3 tests/tools/mutate.py "$@"
}
