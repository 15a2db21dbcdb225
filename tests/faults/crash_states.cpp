#include "tests/faults/crash_states.h"

namespace nystrom::testing {
namespace {

using Kind = FileOperation::Kind;

void put(std::string& content, std::int64_t offset, const std::string& bytes) {
  const auto at = static_cast<std::size_t>(offset);
  if (content.size() < at + bytes.size()) content.resize(at + bytes.size());
  content.replace(at, bytes.size(), bytes);
}

bool flip(std::mt19937& random) { return (random() & 1) != 0; }

template <class Entries, class Change>
void edit(Entries& entries, const Change& edits) {
  for (const auto& [name, node] : edits) {
    if (node) {
      entries[name] = *node;
    } else {
      entries.erase(name);
    }
  }
}

}  // namespace

std::optional<int> DiskModel::find(const std::string& path) const {
  int node = 0;
  for (std::size_t begin = 0; begin < path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const auto found =
        nodes_[static_cast<std::size_t>(node)].now.find(path.substr(begin, end - begin));
    if (found == nodes_[static_cast<std::size_t>(node)].now.end()) return {};
    node = found->second;
    begin = end + 1;
  }
  return node;
}

std::optional<std::pair<int, std::string>> DiskModel::place_of(const std::string& path) const {
  const std::size_t slash = path.rfind('/');
  const auto folder = find(slash == std::string::npos ? "" : path.substr(0, slash));
  if (!folder) return {};
  return std::pair(*folder, slash == std::string::npos ? path : path.substr(slash + 1));
}

void DiskModel::change(int folder, const Change& edits) {
  Node& node = nodes_[static_cast<std::size_t>(folder)];
  edit(node.now, edits);
  node.changes.push_back(edits);
}

void DiskModel::add(const std::string& path, bool folder) {
  const auto place = place_of(path);
  if (!place) return;
  nodes_.push_back({folder, "", {}, {}, {}, {}});
  change(place->first, {{place->second, static_cast<int>(nodes_.size()) - 1}});
}

void DiskModel::rename(const std::string& from, const std::string& to) {
  const auto old_place = place_of(from), new_place = place_of(to);
  const auto node = find(from);
  if (!node || !old_place || !new_place) return;
  if (old_place->first == new_place->first)
    return change(old_place->first, {{old_place->second, {}}, {new_place->second, *node}});
  change(old_place->first, {{old_place->second, {}}});
  change(new_place->first, {{new_place->second, *node}});
}

void DiskModel::exchange(const std::string& a, const std::string& b) {
  const auto place = place_of(a), other_place = place_of(b);
  const auto node = find(a), other = find(b);
  if (node && other && place->first == other_place->first)
    change(place->first, {{place->second, *other}, {other_place->second, *node}});
}

void DiskModel::apply(const FileOperation& operation) {
  const auto found = find(operation.path);
  switch (operation.kind) {
    case Kind::acknowledge: return;
    case Kind::create: return add(operation.path, false);
    case Kind::make_folder: return add(operation.path, true);
    case Kind::rename: return rename(operation.path, operation.target);
    case Kind::exchange: return exchange(operation.path, operation.target);
    default: break;
  }
  if (!found) return;
  Node& node = nodes_[static_cast<std::size_t>(*found)];
  if (operation.kind == Kind::write) {
    node.writes.push_back({operation.offset, operation.bytes});
  } else if (operation.kind == Kind::sync_file) {
    for (const Write& write : node.writes) put(node.durable, write.offset, write.bytes);
    node.writes.clear();
  } else if (operation.kind == Kind::sync_folder) {
    node.durable_entries = node.now;
    node.changes.clear();
  } else if (operation.kind == Kind::remove) {
    const auto place = place_of(operation.path);
    change(place->first, {{place->second, {}}});
  }
}

std::string DiskModel::content_of(const Node& node, Unsynced unsynced, std::mt19937& random) {
  std::string content = node.durable;
  for (const Write& write : node.writes) {
    if (unsynced == Unsynced::lost || (unsynced != Unsynced::kept && flip(random))) continue;
    const bool torn = unsynced == Unsynced::torn && flip(random);
    put(content, write.offset,
        torn ? write.bytes.substr(0, random() % write.bytes.size()) : write.bytes);
  }
  return content;
}

void DiskModel::collect(int index, const std::string& path, Unsynced unsynced, std::mt19937& random,
                        Tree& tree) const {
  const Node& node = nodes_[static_cast<std::size_t>(index)];
  if (!node.folder) {
    tree[path] = content_of(node, unsynced, random);
    return;
  }
  if (!path.empty()) tree[path + "/"] = "";
  Entries entries = node.durable_entries;
  for (const Change& edits : node.changes)
    if (unsynced == Unsynced::kept || (unsynced != Unsynced::lost && flip(random)))
      edit(entries, edits);
  for (const auto& [name, child] : entries)
    collect(child, path.empty() ? name : path + "/" + name, unsynced, random, tree);
}

Tree DiskModel::after_power_loss(Unsynced unsynced, std::mt19937& random) const {
  Tree tree;
  collect(0, "", unsynced, random, tree);
  return tree;
}

}  // namespace nystrom::testing
