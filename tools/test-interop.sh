# ./dev test-interop. Read by dev, whose functions it uses.

readonly interop_packages=(torch==2.15.0 transformers==4.57.1 numpy safetensors sentencepiece
  protobuf scikit-learn scipy seqeval h5py accelerate playwright pytrec-eval-terrier)
readonly newest_packages=(torch==2.15.0 transformers==5.23.0 sentence-transformers==6.2.0
  onnx==1.23.2 onnxruntime==1.32.0 openvino==2026.4.1 accelerate)

# Exports are checked in both environments, everything else in the one of its package. --short: what
# CI runs, each option once.
command_test_interop() {
  local script code=0 scripts=(tests/reference/check_*.py) short=()
  case ${1:-} in
    '') ;;
    --short)
      short=(--short)
      scripts=(tests/reference/check_{modeling,export,onnx,sentence_folders}.py)
      ;;
    *) fail "unknown option '$1'; known: --short" ;;
  esac
  command_setup
  if [[ ${#short[@]} == 0 ]]; then
    install_packages chromium # check_report.py opens pages in it
    configure_python
    build_preset release
  else
    build_preset release nystrom tokenizer_tool
  fi
  python_environment build/interop "${interop_packages[@]}"
  shared=build/interop python_environment build/interop-newest "${newest_packages[@]}"
  for script in "${scripts[@]}"; do
    case $script in
      *_onnx.py | *_drawn.py | *_sentence_*.py) ;;
      *) say "$script" && build/interop/bin/python "$script" "${short[@]}" || code=1 ;;
    esac
    case $script in
      *_onnx.py | *_drawn.py | *_sentence_*.py | *_export.py | *_exported_tokenizers.py | \
        *_finetune.py | *_modeling.py | *_modernbert.py)
        say "$script, newest" && build/interop-newest/bin/python "$script" "${short[@]}" || code=1
        ;;
    esac
  done
  return $code
}
