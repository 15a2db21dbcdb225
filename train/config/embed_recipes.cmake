# Writes OUTPUT, the C++ source that holds the recipes NAMES (separated by |) of FOLDER as text:
#   cmake -DOUTPUT=recipes_text.cpp -DFOLDER=configs "-DNAMES=small|base" -P embed_recipes.cmake
string(REPLACE "|" ";" names "${NAMES}")
string(CONCAT source
  "// Made from the files of configs/ by train/config/embed_recipes.cmake.\n"
  "#include \"train/config/recipes.h\"\n\n"
  "namespace nystrom {\n\n")
string(APPEND source "std::span<const Recipe> recipes() {\n  static constexpr Recipe all[] = {\n")
foreach(name IN LISTS names)
  file(READ ${FOLDER}/${name}.yaml text)
  string(APPEND source "{\"${name}\", R\"recipe(${text})recipe\"},\n")
endforeach()
string(APPEND source "  };\n  return all;\n}\n\n}  // namespace nystrom\n")
file(WRITE ${OUTPUT} "${source}")
