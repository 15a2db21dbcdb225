// Flaws of the HDF5 library that the fuzz targets pass over. SECURITY.md names them.
#pragma once

/// It forgets memory where it meets damage.
extern "C" const char* __lsan_default_suppressions() { return "leak:libhdf5"; }
