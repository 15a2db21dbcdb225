# ./dev bench. Read by dev, whose functions it uses.

command_bench() {
  build_preset release
  local dtype
  for dtype in f32 bf16; do
    build/release/nystrom bench --layers 2 --hidden 256 --heads 4 --landmarks 64 \
      --length 512 --batch 4 --vocab 30000 --conv 33 --mode train --dtype "$dtype" \
      --attention nystrom --steps 5 --json
  done
  if [[ -x build/interop/bin/python ]]; then
    mkdir -p bench/results
    build/interop/bin/python bench/compare_hf.py --output bench/results/compare_hf.json
  else
    say "build/interop is missing: no comparison with PyTorch; ./dev test-interop creates it"
  fi
}
