// Stands in for NVTX: nobody profiles the emulator.
#pragma once

inline int nvtxRangePushA(const char*) { return 0; }
inline int nvtxRangePop() { return 0; }
