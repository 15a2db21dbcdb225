// Included at the top of mutated sources by mutate.py: checks whether a mutant is on.
#pragma once

extern "C" unsigned char* nystrom_mutants;
extern "C" bool nystrom_mutant_reached(unsigned number);

// A macro and not a function: vector code must not emit functions of its own
// (tests/vector_levels.cmake).
#define NYSTROM_MUTANT(number) \
  (__builtin_expect(nystrom_mutants[number] != 0, 0) && nystrom_mutant_reached(number))
