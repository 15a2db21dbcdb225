# ./dev docs and docs-site. Read by dev, whose functions it uses.

# Material for MkDocs is maintained until May 2027. Its authors' Zensical reads .mkdocs.yml too.
readonly site_packages=(mkdocs==1.6.1 mkdocs-material==9.8.2)

# Writes the documents generated from the option lists in train/config/config.h. A test fails when
# they are outdated.
command_docs() {
  build_preset release nystrom
  build/release/nystrom config --markdown > build/config.md
  build/release/nystrom config --schema > build/config.schema.json
  mv build/config.{md,schema.json} docs
}

# Builds the docs site into build/site. Any broken link or anchor is an error.
command_docs_site() {
  python_environment build/docs-environment "${site_packages[@]}"
  NO_MKDOCS_2_WARNING=1 build/docs-environment/bin/mkdocs build --strict \
    --config-file .mkdocs.yml
  say "build/site/index.html"
}
