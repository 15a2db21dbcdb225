// Replaces NCCL's header with the part that train/distributed/nccl_transport.cpp uses. Names and
// meanings are the same.
#pragma once

#include <cuda_runtime.h>

enum ncclResult_t {
  ncclSuccess = 0,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7
};
enum ncclDataType_t {
  ncclUint8 = 1,
  ncclFloat16 = 6,
  ncclFloat32 = 7,
  ncclFloat64 = 8,
  ncclBfloat16 = 9
};
enum ncclRedOp_t { ncclSum = 0 };
using ncclComm_t = struct ncclComm*;
struct ncclUniqueId {
  char internal[128];
};
struct ncclConfig_t {
  int blocking;
};
#define NCCL_CONFIG_INITIALIZER \
  { 1 }

#define NCCL_FUNCTION extern "C" [[gnu::visibility("default")]]

NCCL_FUNCTION const char* ncclGetErrorString(ncclResult_t result);
NCCL_FUNCTION const char* ncclGetLastError(ncclComm_t communicator);
NCCL_FUNCTION ncclResult_t ncclGetUniqueId(ncclUniqueId* id);
NCCL_FUNCTION ncclResult_t ncclCommInitRankConfig(ncclComm_t* communicator, int size,
                                                  ncclUniqueId id, int rank, ncclConfig_t* config);
NCCL_FUNCTION ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator, ncclResult_t* error);
NCCL_FUNCTION ncclResult_t ncclCommFinalize(ncclComm_t communicator);
NCCL_FUNCTION ncclResult_t ncclCommDestroy(ncclComm_t communicator);
NCCL_FUNCTION ncclResult_t ncclCommAbort(ncclComm_t communicator);
NCCL_FUNCTION ncclResult_t ncclGroupStart();
NCCL_FUNCTION ncclResult_t ncclGroupEnd();
NCCL_FUNCTION ncclResult_t ncclAllReduce(const void* source, void* target, std::size_t count,
                                         ncclDataType_t type, ncclRedOp_t operation,
                                         ncclComm_t communicator, cudaStream_t stream);
NCCL_FUNCTION ncclResult_t ncclReduce(const void* source, void* target, std::size_t count,
                                      ncclDataType_t type, ncclRedOp_t operation, int root,
                                      ncclComm_t communicator, cudaStream_t stream);
NCCL_FUNCTION ncclResult_t ncclBroadcast(const void* source, void* target, std::size_t count,
                                         ncclDataType_t type, int root, ncclComm_t communicator,
                                         cudaStream_t stream);
NCCL_FUNCTION ncclResult_t ncclSend(const void* source, std::size_t count, ncclDataType_t type,
                                    int peer, ncclComm_t communicator, cudaStream_t stream);
NCCL_FUNCTION ncclResult_t ncclRecv(void* target, std::size_t count, ncclDataType_t type, int peer,
                                    ncclComm_t communicator, cudaStream_t stream);
