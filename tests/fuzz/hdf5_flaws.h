// Flaws of the HDF5 library that the fuzz targets pass over. SECURITY.md names them.
#pragma once

/// It forgets memory where it meets damage.
extern "C" const char* __lsan_default_suppressions() { return "leak:libhdf5"; }

/// It takes for granted that a chunk unpacks to its full size, and reads on behind one that does
/// not.
extern "C" const char* __asan_default_suppressions() { return "interceptor_via_fun:H5VM_memcpyvv"; }
