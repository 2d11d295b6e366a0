#!/usr/bin/env bash
# Plants one forbidden include at a time into a copy of the sources; include_table_test.sh must name file, line and rule.
#   planted_includes_test.sh SOURCE_ROOT
set -uo pipefail
root=${1:?usage: planted_includes_test.sh SOURCE_ROOT}
check="$(dirname "$0")/include_table_test.sh"
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
for folder in proto storage coordinator worker; do cp -r "$root/$folder" "$copy/"; done

bash "$check" "$copy" >"$copy/clean.log" || { echo "the unplanted copy fails:"; cat "$copy/clean.log"; exit 1; }

failures=0
# plant FILE INCLUDE RULE
plant() {
  local file=$1 include=$2 rule=$3 log="$copy/planted.log"
  cp "$copy/$file" "$copy/kept"
  echo "#include $include" >>"$copy/$file"
  local line
  line=$(wc -l <"$copy/$file")
  if bash "$check" "$copy" >"$log"; then
    echo "not found: $include in $file"
    failures=$((failures + 1))
  elif ! grep -F "$file:$line:" "$log" | grep -qF "$rule"; then
    echo "found, but not as '$rule': $include in $file"
    cat "$log"
    failures=$((failures + 1))
  fi
  mv "$copy/kept" "$copy/$file"
}

plant proto/base/domain.h '"google/protobuf/message.h"' "proto/base has no protobuf"
plant proto/base/clock.cc '<grpcpp/grpcpp.h>' "proto/base has no gRPC"
plant proto/base/sha256.h '"proto/canonical.h"' "proto/base stands alone"
plant proto/convert.cc '"iclsweep/v1/worker.grpc.pb.h"' "only proto/rpc has gRPC"
plant proto/rpc.cc '<sqlite3.h>' "proto has no SQLite"
plant storage/store.h '"iclsweep/v1/sweep.pb.h"' "storage has no protobuf"
plant storage/sqlite/database.h '<sqlite3.h>' "sqlite3.h stays in storage/sqlite/*.cc"
plant storage/sqlite/views.cc '"coordinator/core/core.h"' "storage knows no coordinator and no worker"
plant storage/errors.h '"proto/rpc.h"' "storage uses proto/base only"
plant coordinator/core/core.h '"iclsweep/v1/worker.pb.h"' "coordinator/core has no protobuf"
plant coordinator/core/core.cc '"storage/store.h"' "coordinator/core has no storage"
plant coordinator/core/core.cc '"proto/base/clock.h"' "coordinator/core has no clock"
plant coordinator/core/core.cc '<random>' "coordinator/core has no random source"
plant coordinator/core/core.cc '"coordinator/loop/loop.h"' "coordinator/core includes base and itself only"
plant coordinator/core/core.cc '"coordinator/cli/table.h"' "coordinator/core includes base and itself only"
plant coordinator/spec/cells.cc '"storage/store.h"' "coordinator/spec has no storage"
plant coordinator/spec/cells.cc '"proto/rpc.h"' "coordinator/spec has no gRPC"
plant coordinator/loop/loop.cc '<yaml-cpp/yaml.h>' "yaml-cpp stays in coordinator/spec"
plant coordinator/service/server.cc '"ATen/ATen.h"' "coordinator has no LibTorch"
plant coordinator/cli/run.cc '"worker/agent/agent.h"' "coordinator and worker share proto only"
plant worker/agent/agent.cc '"iclsweep/v1/worker.pb.h"' "worker/agent has no protobuf"
plant worker/agent/slot.h '<grpcpp/grpcpp.h>' "worker/agent has no gRPC"
plant worker/agent/slot.cc '"torch/csrc/autograd/autograd.h"' "worker/agent has no LibTorch"
plant worker/agent/slot.cc '"worker/model/gpt2.h"' "worker/agent includes base and itself only"
plant worker/train/run.cc '"proto/rpc.h"' "stages have no gRPC"
plant worker/theory/run.cc '"worker/link/grpc_link.h"' "stages know no agent, link or node"
plant worker/tasks/prompt.cc '"worker/model/gpt2.h"' "worker/tasks is the lowest"
plant worker/model/gpt2.cc '"worker/train/run.h"' "worker/model is below the stages"
plant worker/link/grpc_link.cc '"ATen/ATen.h"' "link and node have no LibTorch"
plant worker/evaluate/run.cc '<sqlite3.h>' "worker has no SQLite and no storage"
plant worker/stages.cc '"coordinator/spec/plan.h"' "worker knows no coordinator"
plant worker/train/run.cc '  "torch/torch.h"' "torch/torch.h takes 20 seconds a file"

[ "$failures" -eq 0 ] && echo "every planted include was found"
[ "$failures" -eq 0 ]
