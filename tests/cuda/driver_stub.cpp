// Replaces libcuda.so.1 while cuDNN makes plans without a GPU. cuDNN loads its compiled kernels and
// would run them.
namespace {

int place[64];  // target of all handles; never read

}  // namespace

#define SUCCEEDS(name) \
  extern "C" int name() { return 0; }
#define HANDS_OUT(name)                \
  extern "C" int name(void** result) { \
    *result = place;                   \
    return 0;                          \
  }

HANDS_OUT(cuLibraryLoadData)
HANDS_OUT(cuLibraryGetKernel)
HANDS_OUT(cuKernelGetFunction)
HANDS_OUT(cuModuleLoadData)
HANDS_OUT(cuModuleGetFunction)
// cuDNN looks up all of these and calls only a few.
SUCCEEDS(cuCtxGetCurrent)
SUCCEEDS(cuCtxGetLimit)
SUCCEEDS(cuCtxPopCurrent)
SUCCEEDS(cuCtxPushCurrent)
SUCCEEDS(cuDeviceGet)
SUCCEEDS(cuDeviceGetCount)
SUCCEEDS(cuDriverGetVersion)
SUCCEEDS(cuFuncSetAttribute)
SUCCEEDS(cuGetErrorName)
SUCCEEDS(cuGetErrorString)
SUCCEEDS(cuKernelGetAttribute)
SUCCEEDS(cuKernelSetAttribute)
SUCCEEDS(cuLaunchCooperativeKernel)
SUCCEEDS(cuLaunchKernel)
SUCCEEDS(cuLaunchKernelEx)
SUCCEEDS(cuLibraryLoadFromFile)
SUCCEEDS(cuLibraryUnload)
SUCCEEDS(cuLinkAddData)
SUCCEEDS(cuLinkComplete)
SUCCEEDS(cuLinkCreate)
SUCCEEDS(cuLinkDestroy)
SUCCEEDS(cuModuleUnload)
SUCCEEDS(cuOccupancyMaxPotentialClusterSize)
SUCCEEDS(cuStreamGetCtx)
