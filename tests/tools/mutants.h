// Put at the head of mutated sources by mutate.py: is this mutant on?
#pragma once

extern "C" unsigned char* nystrom_mutants;
extern "C" bool nystrom_mutant_reached(unsigned number);

// A macro, so that vector code gets no function of its own (tests/vector_levels.cmake).
#define NYSTROM_MUTANT(number) \
  (__builtin_expect(nystrom_mutants[number] != 0, 0) && nystrom_mutant_reached(number))
