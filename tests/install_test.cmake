# Installs the build, then configures, builds and runs the examples and the program of
# docs/library.md against the installed package, as a user of the library would.
#   cmake -DBUILD=build/… -DEXAMPLES=examples -DGENERATOR=Ninja -DCOMPILER=g++ -P install_test.cmake
cmake_minimum_required(VERSION 3.25)
set(folder ${BUILD}/install_test)
file(REMOVE_RECURSE ${folder})
function(run)
  execute_process(COMMAND ${ARGV} OUTPUT_VARIABLE output ERROR_VARIABLE output RESULT_VARIABLE code)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "failed with ${code}: ${ARGV}\n${output}")
  endif()
endfunction()
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${folder}/prefix)
file(SIZE ${folder}/prefix/share/doc/nystrom/LICENSE size)  # an error where there is none
run(${CMAKE_COMMAND} -S ${EXAMPLES} -B ${folder}/build -G ${GENERATOR}
  -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_PREFIX_PATH=${folder}/prefix)
run(${CMAKE_COMMAND} --build ${folder}/build)
foreach(example train_own_model nystrom_encoder)
  run(${CMAKE_COMMAND} -E chdir ${folder}/build ${folder}/build/${example})
endforeach()

file(READ ${EXAMPLES}/../docs/library.md page)
string(REGEX MATCH "```cpp\n(// Learns[^`]*)```" program "${page}")
file(WRITE ${folder}/library/program.cpp "${CMAKE_MATCH_1}")
file(WRITE ${folder}/library/CMakeLists.txt "cmake_minimum_required(VERSION 3.25)
project(library LANGUAGES CXX)
find_package(nystrom REQUIRED)
add_executable(program program.cpp)
target_link_libraries(program PRIVATE nystrom::state)
")
run(${CMAKE_COMMAND} -S ${folder}/library -B ${folder}/library/build -G ${GENERATOR}
  -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_PREFIX_PATH=${folder}/prefix)
run(${CMAKE_COMMAND} --build ${folder}/library/build)
run(${CMAKE_COMMAND} -E chdir ${folder}/library ${folder}/library/build/program)
file(WRITE ${folder}/library/words.tsv "text\tlabel\naaababaaabab\tmore a\nbbabbbabab\tmore b\n")
run(${CMAKE_COMMAND} -E chdir ${folder}/library ${folder}/prefix/bin/nystrom evaluate more-a-or-b
  --file words.tsv)
