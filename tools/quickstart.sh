# ./dev quickstart. Read by dev, whose functions it uses.

# Trains a model that fills masks, from nothing, with the bundled novels. The same command resumes a
# stopped run.
command_quickstart() {
  local preset=release device=() run=runs/quickstart nystrom
  case ${1:-} in
    '') ;;
    --cuda) preset=cuda device=(--device cuda) ;;
    *) fail "unknown option '$1'; known: --cuda" ;;
  esac
  command_setup
  say "building (about four minutes the first time)"
  build_preset "$preset" nystrom
  nystrom=build/$preset/nystrom
  say "pretraining on nine novels (about three minutes on two cores)"
  "$nystrom" pretrain configs/quickstart.yaml "${device[@]}"
  say "how well it predicts a novel that it has not seen"
  "$nystrom" evaluate "$run" --text examples/quickstart/heldout.txt.gz "${device[@]}"
  say "exporting it for Hugging Face transformers"
  rm -rf "$run/exported"
  "$nystrom" export "$run" "$run/exported" --verify
  say "filling masks"
  "$nystrom" predict "$run" --top-k 3 "${device[@]}" "He shook his [MASK] and said nothing." \
    "She looked out of the [MASK] at the garden." \
    "It was a [MASK] morning, and the sun was shining."
  cat << END

Made:
  $run/checkpoints/      checkpoints: the model with tokenizer, and the state to resume from
  $run/metrics.jsonl     losses and speed; TensorBoard reads its copy in $run
  $run/exported/         the model for transformers; its README.md says how to call it

Try next:
  $nystrom predict $run "The captain stood on the [MASK] of his ship."
  $nystrom evaluate $run --text YOUR_TEXT.txt
  $nystrom config quickstart > my.yaml   # name your own files under data:
  $nystrom check my.yaml --data
END
}
