// Every vector unit of core/cpu/ includes this first. It names the namespace of the level that is
// being compiled.
#pragma once

#ifndef NYSTROM_LEVEL
#define NYSTROM_LEVEL cpu_baseline
#endif

#if defined(__AVX512F__)
#define NYSTROM_VECTOR_BYTES 64
#elif defined(__AVX2__)
#define NYSTROM_VECTOR_BYTES 32
#else
#define NYSTROM_VECTOR_BYTES 16
#endif
