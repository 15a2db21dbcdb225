# ./dev bundle, wheel, deb and release. Read by dev, whose functions it uses.

# Libraries that are not bundled: those of libc. Those of CUDA are loaded when a GPU is chosen.
readonly system_libraries='^lib(c|m|dl|rt|pthread|resolv)\.so'
# Packages of headers that every program compiles in.
readonly compiled_in=(libcli11-dev nlohmann-json3-dev libeigen3-dev libxxhash-dev)

# Prints the libraries that a program needs and their paths, or "not found", one on each line.
libraries_of() { ldd "$1" | sed -n '/ => /{s/^\s*//; s/ => / /; s/ (0x[0-9a-f]*)$//; p}'; }

# The version in CMakeLists.txt.
version() { sed -n 's/^project(nystrom VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt; }

# pack FOLDER FILE: dist/FILE, a tar.gz or tar.xz, which unpacks to a folder of its name.
pack() {
  mkdir -p dist
  tar --create --auto-compress --file "dist/$2" --owner=0 --group=0 --numeric-owner \
    --directory "$(dirname "$1")" --transform "s,^$(basename "$1"),${2%.tar.*}," \
    "$(basename "$1")"
  say_size "dist/$2"
}

say_size() { say "$1 ($(($(stat -c %s "$1") / 1048576)) MiB)"; }

# Copies the program and its libraries beyond libc to dist/nystrom. It then runs on machines without
# installed packages. With --cuda the bundle also has what ./dev gpu runs.
command_bundle() {
  local library path program preset=release programs=(nystrom) bundle=dist/nystrom name sources
  name=nystrom-$(version)-linux-$(uname -m)
  case ${1:-} in
    '') ;;
    --cuda) preset=cuda programs=(nystrom cuda_tests) name+=-cuda ;;
    --hopper) preset=cuda-hopper programs=(nystrom cuda_tests) name+=-hopper ;;
    *) fail "unknown option '$1'; known: --cuda, --hopper" ;;
  esac
  command_setup
  install_packages patchelf
  build_preset "$preset" "${programs[@]}"
  rm -rf "$bundle" && mkdir -p "$bundle/lib"
  cp LICENSE NOTICE "$bundle"
  if [[ $preset == cuda* ]]; then
    mkdir -p "$bundle"/{bench,tests,tools,configs,examples}
    cp dev "$bundle"
    cp tools/gpu.sh "$bundle/tools"
    cp bench/gpu*.py "$bundle/bench"
    mkdir "$bundle/bench/results"
    cp bench/results/{quickstart-losses,*-first}.json "$bundle/bench/results" 2> /dev/null || true
    cp configs/quickstart.yaml "$bundle/configs"
    cp -r examples/quickstart "$bundle/examples"
    cp -r tests/fixtures "$bundle/tests"
  fi
  # Only distributed runs load these. MPI and NCCL themselves come from the machine.
  for library in libnystrom_mpi.so libnystrom_nccl.so; do
    [[ -f build/$preset/$library ]] || continue
    cp "build/$preset/$library" "$bundle/lib"
    # Without the folders where this machine has them.
    patchelf --force-rpath --set-rpath "\$ORIGIN" "$bundle/lib/$library"
  done
  for program in "${programs[@]}"; do
    cp "build/$preset/$program" "$bundle"
    while read -r library path; do
      [[ $path != 'not found' ]] || fail "build/$preset/$program finds no $library"
      [[ $library =~ $system_libraries ]] || cp -L "$path" "$bundle/lib/$library"
    done < <(libraries_of "build/$preset/$program")
    strip "$bundle/$program"
    # Without the folder of this machine's CUDA. ./dev gpu finds others by LD_LIBRARY_PATH.
    [[ $preset != cuda* ]] ||
      patchelf --force-rpath --set-rpath "\$ORIGIN/lib:/usr/local/cuda/lib64" "$bundle/$program"
    while read -r library path; do
      [[ $library =~ $system_libraries || $path == "$PWD/$bundle"/* ]] ||
        fail "$bundle/$program finds $library at $path instead of in $bundle/lib"
    done < <(libraries_of "$bundle/$program")
  done
  strip "$bundle"/lib/*
  copy_licences "$bundle/licences" "$bundle/nystrom"
  if [[ $preset == cuda* ]]; then
    bundle_tokenizer "$bundle"
    copy_cuda_licences "$bundle/licences"
    cp /usr/share/doc/libgtest-dev/copyright "$bundle/licences/libgtest-dev" # in cuda_tests
  fi
  if [[ $preset != cuda-hopper ]]; then
    pack "$bundle" "$name.tar.gz"
    return
  fi
  # It travels to machines that take 64 MiB, beside the files of the repository.
  pack "$bundle" "$name.tar.xz"
  sources=$(git ls-files -z | xargs -0 stat -c %s | awk '{ sum += $1 } END { print sum }')
  (($(stat -c %s "dist/$name.tar.xz") + sources < 63 * 1048576)) ||
    fail "dist/$name.tar.xz and the sources are together larger than 63 MiB"
}

# Trains the quickstart's tokenizer, so that no time on a GPU goes into it.
bundle_tokenizer() {
  rm -rf build/bundle-cache
  "$1/nystrom" prepare configs/quickstart.yaml --quiet --set data.cache=build/bundle-cache
  cp -r build/bundle-cache/tokenizer-* "$1/tokenizer"
}

# copy_licences FOLDER PROGRAM: the licences of all that a program holds and of its libraries, from
# their Debian packages. A library without a package is an error.
copy_licences() {
  local library package owners files=()
  while read -r library _; do
    [[ $library =~ $system_libraries ]] || files+=("*-linux-gnu/$library")
  done < <(libraries_of "$2")
  owners=$(dpkg-query --search "${files[@]}" | cut -d : -f 1 | sort -u) ||
    fail "no package has a library of $2: its licence is not known"
  mkdir -p "$1"
  cp -r /usr/share/common-licenses "$1" # which the others name
  for package in "${compiled_in[@]}" $owners; do
    cp -L "/usr/share/doc/$package/copyright" "$1/$package"
  done
}

# The same for CUDA's runtime and CUB, which programs with CUDA hold.
copy_cuda_licences() {
  local root=${CUDACXX%/bin/nvcc} file
  for file in "$root"/{EULA.txt,{dist-info,../..}/nvidia_cuda_runtime-*/licenses/License.txt} \
    /usr/share/doc/cuda-cudart-dev-*/copyright; do
    [[ ! -f $file ]] || cp -L "$file" "$1/cuda"
  done
  find -L "$root/include" -path '*/cub/device/device_radix_sort.cuh' \
    -exec sed '/\*\/$/q' {} \; > "$1/cub"
  [[ -s $1/cuda && -s $1/cub ]] || fail "the licences of CUDA and CUB are not beside $CUDACXX"
}

# Makes dist/nystrom-….whl: the Python package, the program and their libraries. MPI itself comes
# from the machine, and with --cuda so do the driver, cuBLAS, cuDNN and NCCL.
command_wheel() {
  local python=build/python/bin made=build/wheelhouse build=build/wheel name licences
  name=nystrom-$(version)
  case ${1:-} in
    '') ;;
    --cuda) build+=-cuda name+=+cuda ;;
    *) fail "unknown option '$1'; known: --cuda" ;;
  esac
  licences=$made/licences/$name.dist-info/licenses
  command_setup
  install_packages python3-dev zip
  python_environment build/python "${python_packages[@]}"
  [[ -z ${1:-} ]] || { find_cuda; export NYSTROM_CUDA=1; }
  rm -rf "$made" dist/"$name"-*.whl
  say "building (its compiler runs are shared with ./dev build through ccache)"
  # Of the same name as in other builds, or ccache takes the compiler for another one.
  CXX=${CXX:-c++} $python/python -m pip wheel . --quiet --no-deps --no-build-isolation \
    --wheel-dir "$made"
  copy_licences "$licences" "$build/nystrom"
  cp build/python/lib/python3*/site-packages/nanobind-*/licenses/LICENSE "$licences/nanobind"
  [[ -z ${1:-} ]] || copy_cuda_licences "$licences"
  (cd "$made/licences" && zip -qrD ../*.whl .) # auditwheel lists them
  PATH=$PWD/$python:$PATH $python/auditwheel repair --exclude libmpi.so.40 \
    --exclude libnccl.so.2 --wheel-dir dist "$made"/*.whl &> build/auditwheel.log ||
    fail "auditwheel failed; see build/auditwheel.log"
  $python/python python/wheel_sizes.py dist/"$name"-*.whl
}

# Makes the Debian package for this machine's distribution (train/cli/package).
command_deb() {
  local package
  command_setup
  install_packages dpkg-dev
  build_preset release nystrom
  rm -rf build/release/package/out
  cpack --config build/release/CPackConfig.cmake -B build/release/package/out > build/deb.log ||
    fail "cpack failed; see build/deb.log"
  package=$(basename build/release/package/out/*.deb)
  mkdir -p dist && mv "build/release/package/out/$package" dist
  say_size "dist/$package"
}

# Makes dist/ anew: every package, the docs site and checksums. Uses each package where nothing is
# installed. A release has no uncommitted changes, and in the changelog none above its version.
command_release() {
  local package changes packages=(deb bundle wheel)
  changes=$(git status --porcelain 2>&1) || true
  changes+=$(sed -n '/^## \[/,${/^## \[Unreleased\]$/d; /./{p;q}}' CHANGELOG.md)
  [[ $changes == "## [$(version)]"* ]] ||
    say "changes that are not in version $(version): packages to try, not a release"
  rm -rf dist
  for package in "${packages[@]}"; do "command_$package"; done
  command_docs_site
  pack build/site "nystrom-$(version)-docs.tar.gz"
  (cd dist && sha256sum -- *.* > SHA256SUMS)
  install_packages debootstrap
  trial_model
  for package in "${packages[@]}"; do as_root tests/bare_root.sh "$package"; done
  say "done; dist/SHA256SUMS:" && cat dist/SHA256SUMS
}

# A model of two minutes for the trials of packages: the quickstart's first 200 steps.
trial_model() {
  rm -rf build/bare/{run,model}
  say "training a small model for the trials (two minutes)"
  build/release/nystrom pretrain configs/quickstart.yaml --quiet --set run_dir=build/bare/run \
    --set training.steps=200
  build/release/nystrom export build/bare/run build/bare/model
}
