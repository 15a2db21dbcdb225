# Fails when a unit of vector code defines a weak symbol. The linker keeps one of several weak
# definitions for all callers. If that one was compiled with AVX-512, an older CPU stops with an
# illegal instruction.
#   cmake -DNM=nm -DOBJECTS=a.o|b.o -P vector_levels.cmake
cmake_minimum_required(VERSION 3.25)
string(REPLACE "|" ";" objects "${OBJECTS}")
if(NOT objects)
  message(FATAL_ERROR "no objects given")
endif()
set(found "")
foreach(object ${objects})
  execute_process(COMMAND ${NM} -C ${object} OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[0-9a-f]+ [WVu] [^\n]+" weak "${symbols}")
  list(FILTER weak EXCLUDE REGEX "DW\\.ref\\.__gxx_personality_v0$")
  foreach(symbol ${weak})
    string(APPEND found "\n${object}: ${symbol}")
  endforeach()
endforeach()
if(found)
  message(FATAL_ERROR
    "weak symbols in vector code; force their functions inline or give them internal linkage:"
    "${found}")
endif()
