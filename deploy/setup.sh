#!/usr/bin/env bash
# Installs what iclsweep is built from: Debian packages, and LibTorch from the `torch` wheel into .deps/torch.
#   deploy/setup.sh [--cuda | --cpu] [--tests] [--lint]
#     --cuda    the full LibTorch with its CUDA libraries (default where an NVIDIA driver is found)
#     --cpu     the slim LibTorch: the CPU part and the two small CUDA libraries it links against
#     --tests   also what the tests need     --lint   also clang-format and clang-tidy
# Safe to repeat: does only what is missing. Needs root or sudo for packages; run it from anywhere.
set -euo pipefail
cd "$(dirname "$0")/.."

torch_version=2.11.0
flavour=auto tests=no lint=no
for argument in "$@"; do
  case $argument in
    --cuda) flavour=full ;;
    --cpu) flavour=slim ;;
    --tests) tests=yes ;;
    --lint) lint=yes ;;
    *) echo "setup.sh: unknown option '$argument'; known: --cuda --cpu --tests --lint" >&2; exit 2 ;;
  esac
done
if [ $flavour = auto ]; then
  if [ -e /proc/driver/nvidia/version ] || command -v nvidia-smi >/dev/null 2>&1; then flavour=full; else flavour=slim; fi
fi

packages=(g++ cmake ninja-build ccache git ca-certificates python3 python3-pip
  libgrpc++-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc libabsl-dev
  libsqlite3-dev libssl-dev libyaml-cpp-dev libcli11-dev nlohmann-json3-dev libspdlog-dev)
[ $tests = yes ] && packages+=(libgtest-dev libgmock-dev librapidcheck-dev)
[ $lint = yes ] && packages+=(clang-format clang-tidy)

missing=()
for package in "${packages[@]}"; do
  [ "$(dpkg-query -W -f='${db:Status-Abbrev}' "$package" 2>/dev/null)" = "ii " ] || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  echo "setup: installing ${#missing[@]} Debian packages: ${missing[*]}"
  root=()
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || { echo "setup.sh: installing packages needs root; run it as root, or install sudo" >&2; exit 3; }
    root=(sudo env)
  fi
  log=$(mktemp)
  { "${root[@]}" apt-get update -qq &&
    DEBIAN_FRONTEND=noninteractive "${root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}"; } >"$log" 2>&1 ||
    { tail -n 20 "$log" >&2; echo "setup.sh: apt-get failed; its whole output is in $log" >&2; exit 3; }
  rm -f "$log"
else
  echo "setup: all ${#packages[@]} Debian packages are installed"
fi

stamp=.deps/torch/.iclsweep
have=$(cat $stamp 2>/dev/null || true)
if [ "$have" = "$torch_version full" ] || [ "$have" = "$torch_version $flavour" ]; then
  echo "setup: LibTorch $have is in .deps/torch"
else
  echo "setup: installing LibTorch $torch_version ($flavour) into .deps/torch"
  rm -rf .deps/torch .deps/torch.new
  mkdir -p .deps
  pip=(python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-compile --target .deps/torch.new)
  if [ $flavour = full ]; then
    "${pip[@]}" "torch==$torch_version"
  else
    "${pip[@]}" --no-deps "torch==$torch_version" 'nvidia-cuda-runtime==13.0.*' 'nvidia-cuda-cupti==13.0.*'
  fi
  echo "$torch_version $flavour" >.deps/torch.new/.iclsweep
  mv .deps/torch.new .deps/torch
fi
echo "setup: done"
