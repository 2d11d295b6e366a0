// Domain values <-> wire messages. Nothing is decided here.
#pragma once

#include "absl/status/statusor.h"
#include "iclsweep/v1/worker.pb.h"
#include "proto/base/domain.h"

namespace iclsweep {

v1::HeldLease ToWire(const LeaseProgress& progress);
LeaseProgress FromWire(const v1::HeldLease& held);

v1::Provenance ToWire(const Provenance& provenance);
Provenance FromWire(const v1::Provenance& provenance);

v1::Completion ToWire(const Completion& completion);
// InvalidArgument naming the field that is wrong.
absl::StatusOr<Completion> FromWire(const v1::Completion& completion);

// Puts a stage's serialized message into the lease's oneof. Internal when the
// bytes are not that stage's message.
absl::Status SetInputs(Stage stage, const std::string& serialized,
                       v1::LeasedJob* job);
// The stage's message inside the lease; InvalidArgument when it does not match
// the stage's name.
absl::StatusOr<const google::protobuf::Message*> InputsOf(
    const v1::LeasedJob& job);

}  // namespace iclsweep
