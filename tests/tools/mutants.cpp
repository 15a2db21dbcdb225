// The table of mutants: a memory mapping of the file NYSTROM_MUTANTS. Child processes and killed
// processes share it, so their reached mutants are recorded too.
#include "core/mutants.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

namespace {

constexpr std::size_t max_mutants = 65536;
constexpr unsigned char off = 0, watched = 1;  // any other value: on

unsigned char nothing[max_mutants];

// Runs before any other static object is constructed, since their constructors may reach mutants.
[[gnu::constructor(101)]] void map_table() {
  const char* path = std::getenv("NYSTROM_MUTANTS");
  if (!path) return;
  const int file = ::open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) std::abort();
  void* table = ::mmap(nullptr, max_mutants, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  if (table == MAP_FAILED) std::abort();
  nystrom_mutants = static_cast<unsigned char*>(table);
}

}  // namespace

unsigned char* nystrom_mutants = nothing;

bool nystrom_mutant_reached(unsigned number) {
  if (nystrom_mutants[number] != watched) return true;
  nystrom_mutants[number] = off;
  return false;
}
