// The objects of a pickle, as far as a state dict of PyTorch needs them. Nothing is ever executed:
// a call of a function stays a value that names the function.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace nystrom {

/// The kinds of objects. A call is a function that Python would call, and persistent is an object
/// that lies outside of the pickle.
enum class PickleKind {
  none,
  boolean,
  integer,
  real,
  text,
  tuple,
  list,
  dict,
  function,
  call,
  persistent
};
/// The name of a kind, for messages.
const char* name_of(PickleKind kind);

/// The number of an object in its Pickle.
using PickleId = std::uint32_t;

struct PickleObject {
  PickleKind kind = PickleKind::none;
  std::int64_t integer = 0;  ///< of integer and boolean
  std::string text;          ///< of text; of function and call: "MODULE.NAME"
  /// The elements of a tuple or list, the arguments of a call, the elements of a persistent id, or
  /// the keys and values of a dict in turn.
  std::vector<PickleId> items;
};

/// A parsed pickle.
struct Pickle {
  std::vector<PickleObject> objects;
  PickleId root = 0;
  std::size_t length = 0;  ///< bytes, to the end of the last operation

  const PickleObject& operator[](PickleId id) const { return objects[id]; }
};

/// The most bytes that a pickle may have. A tensor takes about 150.
inline constexpr std::size_t max_pickle_bytes = std::size_t{16} << 20;

/// Parses the pickle at the beginning of `bytes`. Permitted are tuples, lists, dicts, numbers and
/// strings, collections.OrderedDict (a dict here), torch._utils._rebuild_tensor, _rebuild_tensor_v2
/// and _rebuild_parameter (calls), and the classes of storages. Attributes of a dict are ignored.
/// Throws an InputError that names any other function or operation, and for damaged bytes.
Pickle parse_pickle(std::string_view bytes);

}  // namespace nystrom
