# Writes OUTPUT, the C++ source of FUNCTION, which HEADER declares: it returns the text of FILES
# under NAMES (lists separated by |) as EmbeddedFile:
#   cmake -DOUTPUT=recipes_text.cpp -DHEADER=train/config/recipes.h -DFUNCTION=recipes
#     "-DNAMES=small|base" "-DFILES=configs/small.yaml|configs/base.yaml" -P embed_files.cmake
string(REPLACE "|" ";" names "${NAMES}")
string(REPLACE "|" ";" files "${FILES}")
string(CONCAT source
  "// Made by core/base/embed_files.cmake.\n"
  "#include \"${HEADER}\"\n\n"
  "namespace nystrom {\n\n"
  "std::span<const EmbeddedFile> ${FUNCTION}() {\n"
  "  static constexpr EmbeddedFile all[] = {\n")
foreach(name file IN ZIP_LISTS names files)
  file(READ ${file} text)
  string(APPEND source "{\"${name}\", R\"embedded(${text})embedded\"},\n")
endforeach()
string(APPEND source "  };\n  return all;\n}\n\n}  // namespace nystrom\n")
file(WRITE ${OUTPUT} "${source}")
