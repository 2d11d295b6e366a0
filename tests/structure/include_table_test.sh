#!/usr/bin/env bash
# Who may include whom. Prints every offending file:line with the rule it breaks, and fails if there is one.
#   include_table_test.sh SOURCE_ROOT [iclsweep binary]
set -uo pipefail
root=${1:?usage: include_table_test.sh SOURCE_ROOT [iclsweep binary]}
binary=${2:-}
cd "$root" || exit 2

# What an include line names: "path or <path.
messages='["<](google/protobuf/|iclsweep/v1/[a-z_]*\.pb\.h)'
services='["<](grpcpp/|grpc/|grpc\+\+/|iclsweep/v1/[a-z_]*\.grpc\.pb\.h)'
rpc='["<]proto/rpc\.h'
sqlite='["<]sqlite3(ext)?\.h'
torch='["<](ATen|torch|c10|caffe2)/'
yaml='["<]yaml-cpp/'
proto_not_base='["<]proto/[a-z_]*\.h'   # canonical, convert, rpc: not proto/base
storage='["<]storage/'
coordinator='["<]coordinator/'
worker='["<]worker/'

failures=0
checked=0
# forbid "rule" PATTERN PATH...: no .h or .cc file under the paths may have an include line that matches.
forbid() {
  local rule=$1 pattern=$2 found path
  shift 2
  for path in "$@"; do
    if [ ! -e "$path" ]; then
      echo "$path: is not there, but a rule speaks of it: $rule"
      failures=$((failures + 1))
    fi
  done
  checked=$((checked + 1))
  found=$(grep -rnE --include='*.h' --include='*.cc' "^[[:space:]]*#[[:space:]]*include[[:space:]]*$pattern" "$@" 2>/dev/null) || return 0
  while IFS= read -r line; do echo "$line    <- $rule"; done <<<"$found"
  failures=$((failures + $(wc -l <<<"$found")))
}

# proto
forbid "proto/base has no protobuf" "$messages" proto/base
forbid "proto/base has no gRPC" "$services" proto/base
forbid "proto/base stands alone" "$proto_not_base|$storage|$coordinator|$worker" proto/base
forbid "proto has no SQLite" "$sqlite" proto
forbid "proto has no LibTorch" "$torch" proto
forbid "proto knows nobody above it" "$storage|$coordinator|$worker" proto
forbid "only proto/rpc has gRPC" "$services" proto/base proto/canonical.h proto/canonical.cc proto/convert.h proto/convert.cc
forbid "canonical and convert are below rpc" "$rpc" proto/canonical.h proto/canonical.cc proto/convert.h proto/convert.cc

# storage
forbid "storage has no protobuf" "$messages" storage
forbid "storage has no gRPC" "$services" storage
forbid "storage has no LibTorch" "$torch" storage
forbid "storage uses proto/base only" "$proto_not_base" storage
forbid "storage knows no coordinator and no worker" "$coordinator|$worker" storage

# sqlite3.h: in storage/sqlite/*.cc and nowhere else.
checked=$((checked + 1))
found=$(grep -rnE --include='*.h' --include='*.cc' "^[[:space:]]*#[[:space:]]*include[[:space:]]*$sqlite" proto coordinator worker storage |
  grep -vE '^storage/sqlite/[a-z_]*\.cc:')
if [ -n "$found" ]; then
  while IFS= read -r line; do echo "$line    <- sqlite3.h stays in storage/sqlite/*.cc"; done <<<"$found"
  failures=$((failures + $(wc -l <<<"$found")))
fi

# coordinator
forbid "coordinator/core has no protobuf" "$messages|$proto_not_base" coordinator/core
forbid "coordinator/core has no gRPC" "$services" coordinator/core
forbid "coordinator/core has no storage" "$storage" coordinator/core
forbid "coordinator/core includes base and itself only" '["<]coordinator/[a-bd-z][a-z]*/|["<]coordinator/c[a-np-z][a-z]*/' coordinator/core
forbid "coordinator/core has no clock" '["<](proto/base/clock\.h|chrono|ctime|time\.h|absl/time/)' coordinator/core
forbid "coordinator/core has no random source" '["<](random|absl/random/|proto/base/streams\.h)' coordinator/core
forbid "coordinator/core has no threads and no I/O" '["<](thread|mutex|atomic|fstream|iostream|filesystem|unistd\.h|spdlog/)' coordinator/core
forbid "coordinator/spec has no gRPC" "$services|$rpc" coordinator/spec
forbid "coordinator/spec has no storage" "$storage" coordinator/spec
forbid "coordinator/spec is below loop, service and cli" '["<]coordinator/(core|loop|service|web|cli)/' coordinator/spec
forbid "yaml-cpp stays in coordinator/spec" "$yaml" proto storage worker coordinator/core coordinator/loop coordinator/service coordinator/cli
forbid "coordinator has no LibTorch" "$torch" coordinator
forbid "coordinator and worker share proto only" "$worker" coordinator

# worker
forbid "worker/agent has no protobuf" "$messages|$proto_not_base" worker/agent
forbid "worker/agent has no gRPC" "$services" worker/agent
forbid "worker/agent has no LibTorch" "$torch" worker/agent
forbid "worker/agent includes base and itself only" '["<]worker/(tasks|model|train|evaluate|compare|theory|link|node)/|["<]worker/[a-z_]*\.h' worker/agent
stages="worker/tasks worker/model worker/train worker/evaluate worker/compare worker/theory"
# shellcheck disable=SC2086
forbid "stages have no gRPC" "$services|$rpc" $stages
# shellcheck disable=SC2086
forbid "stages know no agent, link or node" '["<]worker/(agent|link|node)/' $stages
forbid "worker/tasks is the lowest" '["<]worker/(model|train|evaluate|compare|theory)/' worker/tasks
forbid "worker/model is below the stages" '["<]worker/(train|evaluate|compare|theory)/' worker/model
forbid "link and node have no LibTorch" "$torch" worker/link worker/node
forbid "link and node know no stage" '["<]worker/(tasks|model|train|evaluate|compare|theory)/' worker/link worker/node
forbid "worker has no SQLite and no storage" "$sqlite|$storage" worker
forbid "worker knows no coordinator" "$coordinator" worker
forbid "torch/torch.h takes 20 seconds a file" '["<]torch/torch\.h' worker

# The coordinator's program starts in milliseconds: no LibTorch in it.
if [ -n "$binary" ] && [ -e "$binary" ]; then
  checked=$((checked + 1))
  needed=$(readelf -d "$binary" | grep -E 'NEEDED.*lib(torch|c10|caffe2)')
  if [ -n "$needed" ]; then
    echo "$binary: links LibTorch:"
    echo "$needed"
    failures=$((failures + 1))
  fi
fi

echo "$checked rules, $failures offences"
[ "$failures" -eq 0 ]
