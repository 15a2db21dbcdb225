#include "train/state/pickle.h"

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "core/base/printable.h"
#include "core/base/utf8.h"
#include "core/check.h"

namespace nystrom {
namespace {

constexpr std::size_t max_objects = std::size_t{2} << 20;
constexpr std::size_t max_items = std::size_t{16} << 20;  // of all objects together

bool is_permitted(std::string_view function) {
  constexpr std::string_view known[] = {"collections.OrderedDict", "torch._utils._rebuild_tensor",
                                        "torch._utils._rebuild_tensor_v2",
                                        "torch._utils._rebuild_parameter"};
  const bool storage = function.starts_with("torch.") && function.ends_with("Storage") &&
                       function.find('.', 6) == function.npos;
  return storage || std::ranges::find(known, function) != std::end(known);
}

/// The machine that a pickle is a program of: a stack of objects, marks in it, and numbered copies.
class Machine {
 public:
  explicit Machine(std::string_view bytes) : bytes_(bytes) {}

  Pickle run() {
    while (!step()) {
    }
    pickle_.root = pop();
    pickle_.length = at_;
    return std::move(pickle_);
  }

 private:
  /// Executes one operation. Returns whether it was the last. The names of the operations are those
  /// of Python's module pickletools.
  bool step() {
    const std::size_t place = at_;
    const auto code = static_cast<unsigned char>(take(1)[0]);
    switch (code) {
      case 0x80:  // PROTO
        require_input(number(1) <= 5, "its pickle has a protocol above 5");
        break;
      case 0x95: take(8); break;  // FRAME
      case '.': return true;      // STOP
      case '(': marks_.push_back(stack_.size()); break;
      case '0': pop(); break;
      case 'N': push({}); break;
      case 0x88: push({PickleKind::boolean, 1, {}, {}}); break;
      case 0x89: push({PickleKind::boolean, 0, {}, {}}); break;
      case 'K': push_integer(number(1)); break;
      case 'M': push_integer(number(2)); break;
      case 'J': push_integer(static_cast<std::int32_t>(number(4))); break;
      case 0x8a: push_integer(long_number(static_cast<std::size_t>(number(1)))); break;
      case 'G':
        take(8);
        push({PickleKind::real, 0, {}, {}});
        break;
      case 0x8c:
      case 'U': push_text(1); break;  // SHORT_BINUNICODE; a string of Python 2
      case 'X':
      case 'T': push_text(4); break;
      case 0x8d: push_text(8); break;
      case 'c': {  // GLOBAL
        const std::string module = line();
        push_function(module, line());
        break;
      }
      case 0x93: {  // STACK_GLOBAL
        const std::string name = text_of(pop()), module = text_of(pop());
        push_function(module, name);
        break;
      }
      case '}': push({PickleKind::dict, 0, {}, {}}); break;
      case ']': push({PickleKind::list, 0, {}, {}}); break;
      case ')': push({PickleKind::tuple, 0, {}, {}}); break;
      case 't': push({PickleKind::tuple, 0, {}, since_mark()}); break;
      case 0x85:
      case 0x86:
      case 0x87: push({PickleKind::tuple, 0, {}, last(code - 0x84u)}); break;
      case 'a': extend(PickleKind::list, last(1)); break;
      case 'e': extend(PickleKind::list, since_mark()); break;
      case 's': extend(PickleKind::dict, last(2)); break;
      case 'u': extend(PickleKind::dict, since_mark()); break;
      case 'q': memo_[number(1)] = top(); break;
      case 'r': memo_[number(4)] = top(); break;
      case 0x94: memo_[static_cast<std::int64_t>(memo_.size())] = top(); break;  // MEMOIZE
      case 'h': recall(number(1)); break;
      case 'j': recall(number(4)); break;
      case 'Q': persistent(); break;
      case 'R': call(); break;
      case 'b':  // BUILD sets attributes, like the versions of modules in a state dict
        pop();
        require_input(object(top()).kind == PickleKind::dict,
                      "its pickle sets attributes of a {}; only those of a dict are accepted",
                      name_of(object(top()).kind));
        break;
      default:
        throw InputError(fmt::format(
            "its pickle has operation 0x{:02x} at byte {}, which a state dict does not need; it is "
            "not executed; save model.state_dict() alone",
            code, place));
    }
    return false;
  }

  std::string_view take(std::size_t count) {
    require_input(count <= bytes_.size() - at_, "its pickle is cut off at byte {}", bytes_.size());
    at_ += count;
    return bytes_.substr(at_ - count, count);
  }

  /// An unsigned number of up to 4 bytes, or the first 63 bits of 8, little-endian.
  std::int64_t number(std::size_t width) {
    std::uint64_t value = 0;
    const std::string_view digits = take(width);
    for (std::size_t i = 0; i < width; ++i)
      value |= std::uint64_t{static_cast<unsigned char>(digits[i])} << (8 * i);
    require_input(value <= std::numeric_limits<std::int64_t>::max(),
                  "its pickle has a number out of range");
    return static_cast<std::int64_t>(value);
  }

  /// A number in two's complement.
  std::int64_t long_number(std::size_t width) {
    require_input(width <= 8, "its pickle has a number of {} bytes, expected at most 8", width);
    const std::string_view digits = take(width);
    std::uint64_t value = width > 0 && (digits.back() & 0x80) ? ~std::uint64_t{0} : 0;
    for (std::size_t i = width; i-- > 0;)
      value = value << 8 | static_cast<unsigned char>(digits[i]);
    return static_cast<std::int64_t>(value);
  }

  std::string line() {
    const std::size_t end = bytes_.find('\n', at_);
    require_input(end != bytes_.npos && end - at_ <= 1000, "its pickle has an unfinished name");
    const std::string text(take(end - at_));
    take(1);
    return text;
  }

  PickleObject& object(PickleId id) { return pickle_.objects[id]; }

  void push(PickleObject object) {
    require_input(pickle_.objects.size() < max_objects, "its pickle has more than {} objects",
                  max_objects);
    count_items(object.items.size());
    stack_.push_back(static_cast<PickleId>(pickle_.objects.size()));
    pickle_.objects.push_back(std::move(object));
  }
  void count_items(std::size_t more) {
    items_ += more;
    require_input(items_ <= max_items, "its pickle has more than {} entries", max_items);
  }
  void push_integer(std::int64_t value) { push({PickleKind::integer, value, {}, {}}); }
  void push_text(std::size_t width) {
    const std::string_view text = take(static_cast<std::size_t>(number(width)));
    require_input(is_valid_utf8(text), "its pickle has a string that is not UTF-8");
    push({PickleKind::text, 0, std::string(text), {}});
  }
  void push_function(const std::string& module, const std::string& name) {
    const std::string function = module + "." + name;
    require_input(is_permitted(function),
                  "its pickle names {}, which a state dict does not need; it is not executed; save "
                  "model.state_dict() alone, of plain tensors",
                  printable(function, 80));
    push({PickleKind::function, 0, function, {}});
  }

  PickleId pop() {
    const PickleId id = top();
    stack_.pop_back();
    return id;
  }
  PickleId top() const {
    require_input(stack_.size() > (marks_.empty() ? 0 : marks_.back()),
                  "its pickle takes an object that is not there, before byte {}", at_);
    return stack_.back();
  }
  const std::string& text_of(PickleId id) {
    require_input(object(id).kind == PickleKind::text, "its pickle has a {} in place of a name",
                  name_of(object(id).kind));
    return object(id).text;
  }
  std::vector<PickleId> last(std::size_t count) {
    std::vector<PickleId> ids(count);
    for (std::size_t i = count; i-- > 0;) ids[i] = pop();
    return ids;
  }
  std::vector<PickleId> since_mark() {
    require_input(!marks_.empty(), "its pickle lacks a mark before byte {}", at_);
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<PickleId> ids(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    return ids;
  }

  void extend(PickleKind kind, const std::vector<PickleId>& items) {
    PickleObject& target = object(top());
    require_input(target.kind == kind && (kind == PickleKind::list || items.size() % 2 == 0),
                  "its pickle adds {} objects to a {}, expected a {}", items.size(),
                  name_of(target.kind), name_of(kind));
    count_items(items.size());
    target.items.insert(target.items.end(), items.begin(), items.end());
  }

  void recall(std::int64_t number) {
    const auto found = memo_.find(number);
    require_input(found != memo_.end(), "its pickle takes copy {}, which it has not made", number);
    stack_.push_back(found->second);
    require_input(stack_.size() <= max_objects, "its pickle has more than {} objects", max_objects);
  }

  void persistent() {
    const PickleObject& id = object(pop());
    require_input(id.kind == PickleKind::tuple, "its pickle names storages by a {}, not by a tuple",
                  name_of(id.kind));
    push({PickleKind::persistent, 0, {}, id.items});
  }

  void call() {
    const PickleObject arguments = object(pop()), function = object(pop());
    require_input(function.kind == PickleKind::function && arguments.kind == PickleKind::tuple,
                  "its pickle calls a {} with a {}", name_of(function.kind),
                  name_of(arguments.kind));
    if (function.text != "collections.OrderedDict")
      return push({PickleKind::call, 0, function.text, arguments.items});
    PickleObject dict{PickleKind::dict, 0, {}, {}};
    require_input(arguments.items.size() <= 1, "its pickle makes a dict of {} objects",
                  arguments.items.size());
    if (!arguments.items.empty()) {  // Python 2 gives the entries as a list of pairs
      for (const PickleId entry : object(arguments.items[0]).items) {
        const std::vector<PickleId>& pair = object(entry).items;
        require_input(pair.size() == 2, "its pickle makes a dict of something other than pairs");
        dict.items.insert(dict.items.end(), pair.begin(), pair.end());
      }
    }
    push(std::move(dict));
  }

  std::string_view bytes_;
  std::size_t at_ = 0;
  Pickle pickle_;
  std::vector<PickleId> stack_;
  std::vector<std::size_t> marks_;  // sizes of the stack
  std::size_t items_ = 0;
  std::unordered_map<std::int64_t, PickleId> memo_;
};

}  // namespace

const char* name_of(PickleKind kind) {
  constexpr const char* names[] = {"None", "boolean", "integer",  "float", "string",       "tuple",
                                   "list", "dict",    "function", "call",  "persistent id"};
  return names[static_cast<std::size_t>(kind)];
}

Pickle parse_pickle(std::string_view bytes) { return Machine(bytes).run(); }

}  // namespace nystrom
